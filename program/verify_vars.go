package program

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// maxLoDLevel bounds the levels of sequences within sequences.
const maxLoDLevel = 8

func (v *verifier) variables(b *Block) {
	for _, variable := range b.Vars() {
		wrong := func(f *fault.Fault) {
			f.Where, f.Variable = fmt.Sprintf("block %d", b.Index), variable.Name
			v.report.add(f)
		}
		if b.vars[variable.Name] != variable || variable.Name == "" || variable.Name == Empty {
			wrong(fault.E(fault.InvalidProgram, fault.Got("the name "+fault.Quote(variable.Name)),
				fault.Want("the name that it was added under, not empty and not "+Empty)))
		}
		if f := checkVar(variable); f != nil {
			wrong(f)
		}
		parent := b.ParentBlock()
		if parent == nil {
			continue
		}
		if outer, ok := parent.Find(variable.Name); ok && !sameType(outer, variable) {
			wrong(fault.E(fault.TypeMismatch, fault.Got(describe(variable)),
				fault.Want(describe(outer)+", as an enclosing block declares this name")))
		}
	}
}

// checkVar checks what a variable says of itself.
func checkVar(v *Var) *fault.Fault {
	switch {
	case !v.Kind.known():
		return fault.E(fault.TypeMismatch, fault.Gotf("kind %d", v.Kind), fault.Want("a kind of variable, 7 to 31"))
	case v.LoDLevel < 0 || v.LoDLevel > maxLoDLevel:
		return fault.E(fault.InvalidProgram, fault.Gotf("LoD level %d", v.LoDLevel), fault.Wantf("0 to %d", maxLoDLevel))
	case v.Kind == Reader:
		for i := range v.Fields {
			if f := checkTensor(&v.Fields[i]); f != nil {
				f.Got = fmt.Sprintf("field %d: %s", i, f.Got)
				return f
			}
		}
		return nil
	case v.Kind.isTensor():
		return checkTensor(v)
	}
	return nil
}

func checkTensor(v *Var) *fault.Fault {
	known := slices.DeleteFunc(slices.Clone(v.Dims), func(d int64) bool { return d == Unknown })
	switch {
	case v.DType == noDType:
		return fault.E(fault.TypeMismatch, fault.Got("no element type"), fault.Want("one"))
	case v.DType.Size() == 0:
		return fault.E(fault.TypeMismatch, fault.Got("element type "+v.DType.String()),
			fault.Want("one of bool, int8 to int64, uint8, float16 to float64, bfloat16"))
	case len(v.Dims) > tensor.MaxRank:
		return fault.E(fault.TooLarge, fault.Gotf("rank %d", len(v.Dims)), fault.Wantf("at most %d", tensor.MaxRank))
	case slices.ContainsFunc(known, func(d int64) bool { return d < 0 }):
		return fault.E(fault.ShapeMismatch, fault.Gotf("dims %v", v.Dims), fault.Want("-1 where open, else 0 or more"))
	}
	if _, ok := tensor.Count(append(known, int64(v.DType.Size()))); !ok {
		return fault.E(fault.TooLarge, fault.Gotf("dims %v", v.Dims), fault.Want("fewer bytes than 2^63"))
	}
	return nil
}

// known reports whether Fluid has the kind; kind numbers share an enum with element types.
func (k VarKind) known() bool {
	return k >= LoDTensor && k <= 31 && tensor.DType(k).Size() == 0
}

// isTensor reports whether variables of the kind have an element type and dims.
func (k VarKind) isTensor() bool { return k == LoDTensor || k == SelectedRows || k == LoDTensorArray }

// sameType reports whether two declarations can mean one variable.
func sameType(a, b *Var) bool {
	if a.Kind != b.Kind {
		return false
	}
	if !a.Kind.isTensor() {
		return true
	}
	return a.DType == b.DType && slices.EqualFunc(a.Dims, b.Dims, func(x, y int64) bool { return x == y || x == Unknown || y == Unknown })
}

// describe names kind, dtype and dims, such as "float32[-1 784]".
func describe(v *Var) string {
	if !v.Kind.isTensor() {
		return v.Kind.String()
	}
	text := fmt.Sprintf("%v%v", v.DType, v.Dims)
	if v.Kind != LoDTensor {
		text = v.Kind.String() + " of " + text
	}
	if v.LoDLevel > 0 {
		text += fmt.Sprintf(" lod %d", v.LoDLevel)
	}
	return text
}
