package fault

import "fmt"

// E makes a Fault of a kind from fields:
//
//	fault.E(fault.ShapeMismatch, fault.On(op), fault.Var("x"), fault.Gotf("dims %v", have), fault.Wantf("dims %v", need))
//
// Fields may stand in any order. By convention the place and the op come first, then what was found, what is right, and what to do. If a
// field is given twice, the last one counts.
//
// Phrase fields so that the message reads well: "got dims [2 3], want dims [3 3]; reshape x first".
func E(kind Kind, fields ...Field) *Fault {
	f := &Fault{Kind: kind}
	for _, field := range fields {
		field.set(f)
	}
	return f
}

// A Field is one argument of E: Op, Var, On, At, Got, Want, Line, Hint, Cause, or a form of these that ends in f and takes a format.
type Field interface{ set(*Fault) }

type (
	// Op is the type of the op of the program, such as "mul".
	Op string
	// Var is a variable of the program.
	Var string
	// At is the file, block, endpoint or member.
	At string
	// Got is what was found.
	Got string
	// Want is what is right.
	Want string
	// Line is the file:line of user code that built the op.
	Line string
	// Hint is what the user can do.
	Hint string
)

func (s Op) set(f *Fault)   { f.Op = string(s) }
func (s Var) set(f *Fault)  { f.Variable = string(s) }
func (s At) set(f *Fault)   { f.Where = string(s) }
func (s Got) set(f *Fault)  { f.Got = string(s) }
func (s Want) set(f *Fault) { f.Want = string(s) }
func (s Line) set(f *Fault) { f.Line = string(s) }
func (s Hint) set(f *Fault) { f.Hint = string(s) }

// Varf is Var with a format.
func Varf(format string, args ...any) Field { return Var(fmt.Sprintf(format, args...)) }

// Atf is At with a format.
func Atf(format string, args ...any) Field { return At(fmt.Sprintf(format, args...)) }

// Gotf is Got with a format.
func Gotf(format string, args ...any) Field { return Got(fmt.Sprintf(format, args...)) }

// Wantf is Want with a format.
func Wantf(format string, args ...any) Field { return Want(fmt.Sprintf(format, args...)) }

// Hintf is Hint with a format.
func Hintf(format string, args ...any) Field { return Hint(fmt.Sprintf(format, args...)) }

// Cause is the error that led to the fault. It may be nil.
func Cause(err error) Field { return cause{err} }

type cause struct{ err error }

func (c cause) set(f *Fault) { f.Err = c.err }

// A Source is an op that knows its type and the line of user code that built it. program.Op is one.
type Source interface {
	FaultSource() (op, line string)
}

// On sets Op and Line from an op of a program.
func On(op Source) Field { return on{op} }

type on struct{ op Source }

func (o on) set(f *Fault) { f.Op, f.Line = o.op.FaultSource() }

// DidYouMean is the hint that names what a wrong name probably stands for: the candidate with the fewest edits to it, the first of several. It says
// nothing if none is close.
func DidYouMean(name string, candidates []string) Field {
	if meant := Closest(name, candidates); meant != "" {
		return Hint("did you mean " + Quote(meant) + "?")
	}
	return Hint("")
}

// Closest returns the candidate with the fewest edits to name, the first of several. It returns "" if none is close enough.
func Closest(name string, candidates []string) string {
	if name == "" {
		return ""
	}
	best, distance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := edits(name, c); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
