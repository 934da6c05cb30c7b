package kernel

import "math"

// A Sampler draws classes, which a position in a stream of random numbers decides (see random64).
type Sampler struct {
	Classes int64
	Kind    SamplerKind
	// Probabilities, Alias and Keep are for Listed: the probability of each class, and a table of Walker's alias method: class c stays c with the probability
	// Keep[c], and else becomes Alias[c], or stays where that is -1.
	Probabilities, Keep []float32
	Alias               []int32
}

// A SamplerKind is a distribution of classes. The numbers are Fluid's.
type SamplerKind int64

// Distributions of classes.
const (
	UniformClasses    SamplerKind = iota // all alike
	LogUniformClasses                    // class c with log((c+2)/(c+1))/log(Range+1): small numbers often
	ListedClasses                        // as a list says
)

// Probability returns how probable a class is. Of log-uniform classes, Fluid leaves out the last.
func (s *Sampler) Probability(class int64) float64 {
	switch s.Kind {
	case LogUniformClasses:
		return LogUniformProbability(class, s.Classes-1)
	case ListedClasses:
		return float64(s.Probabilities[class])
	}
	return 1 / float64(s.Classes)
}

// Draw draws the class at an index of a stream. It takes the numbers 2*index and 2*index+1.
func (s *Sampler) Draw(seed int64, stream, index uint64) int64 {
	u := uniform(seed, stream, 2*index)
	switch s.Kind {
	case LogUniformClasses:
		return LogUniformDraw(u, s.Classes-1)
	case ListedClasses:
		class := int64(u * float64(s.Classes))
		if other := s.Alias[class]; other >= 0 && uniform(seed, stream, 2*index+1) > float64(s.Keep[class]) {
			return int64(other)
		}
		return class
	}
	return int64(u * float64(s.Classes))
}

// LogUniformProbability returns the probability of a class of Fluid's log-uniform sampler.
func LogUniformProbability(class, classes int64) float64 {
	return math.Log((float64(class)+2)/(float64(class)+1)) / math.Log(float64(classes)+1)
}

// LogUniformDraw makes a class below classes of a uniform number, by the inverse of the distribution function.
func LogUniformDraw(u float64, classes int64) int64 {
	return (int64(math.Exp(u*math.Log(float64(classes)+1))) - 1) % classes
}

// DrawDifferent draws len(out) different log-uniform classes, fewer than or as many as there are classes. It returns how many draws that took. table is memory
// for at least 2*len(out) numbers, as many as a power of two.
func DrawDifferent(out, table []int64, classes, seed int64, stream uint64) (draws int64) {
	for i := range table {
		table[i] = -1
	}
	mask := uint64(len(table) - 1)
next:
	for n := 0; n < len(out); draws++ {
		class := LogUniformDraw(uniform(seed, stream, uint64(draws)), classes)
		at := uint64(class) * 0x9e3779b97f4a7c15 >> 20 & mask
		for ; table[at] >= 0; at = (at + 1) & mask {
			if table[at] == class {
				continue next
			}
		}
		table[at], out[n] = class, class
		n++
	}
	return draws
}

// ExpectedCount returns how often a class of this probability is expected among so many different classes that took so many draws: 1 - (1-p)**draws.
func ExpectedCount(probability float64, different, draws int64) float64 {
	if different == draws {
		return probability * float64(draws)
	}
	return -math.Expm1(float64(draws) * math.Log1p(-probability))
}

// PickByProbability returns the first index at which the sum of probabilities exceeds r, the last one if none does (Fluid's sampling_id).
func PickByProbability[T float32 | float64](probabilities []T, r float64) int64 {
	for i, p := range probabilities {
		if r -= float64(p); r < 0 {
			return int64(i)
		}
	}
	return int64(len(probabilities) - 1)
}
