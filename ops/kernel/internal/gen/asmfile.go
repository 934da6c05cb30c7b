package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// An asmFile is one file of assembly under construction.
type asmFile struct {
	*build.Context
	wide      bool // vector, and what uses it, takes 512 bits
	labels    int
	constants map[string]operand.Mem
}

func newAsmFile() *asmFile {
	u := &asmFile{Context: build.NewContext(), constants: map[string]operand.Mem{}}
	u.ConstraintExpr("!purego")
	return u
}

// assembly compiles the file and prints it.
func (u *asmFile) assembly() ([]byte, error) {
	file, err := u.Result()
	if err != nil {
		return nil, err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return nil, err
	}
	return printer.NewGoAsm(printer.Config{Name: "go generate ./ops/kernel"}).Print(file)
}

// vector returns a register of 256 bits, or of 512 in a wide function.
func vector(u *asmFile) reg.VecVirtual {
	if u.wide {
		return u.ZMM()
	}
	return u.YMM()
}

// function starts a leaf function without a frame.
func (u *asmFile) function(name, signature, doc string) {
	u.Function(name)
	u.Attributes(attr.NOSPLIT)
	u.SignatureExpr(signature)
	if doc != "" {
		u.Doc(doc)
	}
}

// label returns a name that is new within the file.
func (u *asmFile) label(what string) string {
	u.labels++
	return fmt.Sprintf("%s%d", what, u.labels)
}

// jump targets a label.
func jump(label string) operand.LabelRef { return operand.LabelRef(label) }

// at addresses offset bytes after base.
func at(base reg.Register, offset int) operand.Mem { return operand.Mem{Base: base, Disp: offset} }

// finish ends a function that used wide registers.
func (u *asmFile) finish() {
	u.VZEROUPPER()
	u.RET()
}

// float addresses a vector of eight times value.
func (u *asmFile) float(value float32) operand.Mem { return u.word(math.Float32bits(value)) }

// word addresses a vector of eight times the 32 bits of value.
func (u *asmFile) word(value uint32) operand.Mem {
	name := fmt.Sprintf("word%08x", value)
	if m, ok := u.constants[name]; ok {
		return m
	}
	m := u.StaticGlobal(name)
	u.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 8 {
		u.AddDatum(4*i, operand.U32(value))
	}
	u.constants[name] = m
	return m
}

// polynomial emits Horner's scheme with fused steps, the coefficient of the highest power first.
func (u *asmFile) polynomial(x reg.VecVirtual, coefficients ...float32) reg.VecVirtual {
	sum := u.YMM()
	u.VMOVUPS(u.float(coefficients[0]), sum)
	for _, c := range coefficients[1:] {
		u.VFMADD213PS(u.float(c), x, sum)
	}
	return sum
}

// constant loads a number into all lanes of a register.
func (u *asmFile) constant(value float32) reg.VecVirtual {
	r := u.YMM()
	u.VMOVUPS(u.float(value), r)
	return r
}

// compare emits a mask of the lanes where the predicate holds for x and y.
func compare(u *asmFile, predicate uint8, x, y reg.VecVirtual) reg.VecVirtual {
	mask := u.YMM()
	u.VCMPPS(operand.U8(predicate), y, x, mask)
	return mask
}
