package simd

// A Level is a set of instructions that the loops may use. Each includes those before it.
type Level int

const (
	None   Level = iota // portable Go only
	AVX2                // AVX2, FMA and F16C
	AVX512              // AVX-512 F and VL, BMI2
)

var names = [...]string{"none", "AVX2", "AVX-512"}

// String returns the name that processors' manuals use.
func (l Level) String() string { return names[l] }

// current is what Current returns: the best of this machine, unless a test chose another.
var current = detect()

// Current returns the level that all loops run at.
func Current() Level { return current }

// Available returns the best level of this machine.
func Available() Level { return detect() }

// Use makes loops run at level, at most Available, until the function that it returns is called. It is for tests and
// benchmarks, which must not run anything else meanwhile.
func Use(level Level) (restore func()) {
	before := current
	current = min(level, Available())
	return func() { current = before }
}
