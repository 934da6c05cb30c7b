package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// A unit is one file of assembly under construction.
type unit struct {
	*build.Context
	labels int
}

func newUnit() *unit {
	u := &unit{Context: build.NewContext()}
	u.ConstraintExpr("!purego")
	return u
}

// assembly compiles the unit and prints it.
func (u *unit) assembly() ([]byte, error) {
	file, err := u.Result()
	if err != nil {
		return nil, err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return nil, err
	}
	return printer.NewGoAsm(printer.Config{Name: "go generate ./ops/kernel"}).Print(file)
}

// function starts a leaf function without a frame.
func (u *unit) function(name, signature, doc string) {
	u.Function(name)
	u.Attributes(attr.NOSPLIT)
	u.SignatureExpr(signature)
	u.Doc(doc)
}

// label returns a name that is new within the unit.
func (u *unit) label(what string) string {
	u.labels++
	return fmt.Sprintf("%s%d", what, u.labels)
}

// jump targets a label.
func jump(label string) operand.LabelRef { return operand.LabelRef(label) }

// at addresses offset bytes after base.
func at(base reg.Register, offset int) operand.Mem { return operand.Mem{Base: base, Disp: offset} }

// finish ends a function that used wide registers.
func (u *unit) finish() {
	u.VZEROUPPER()
	u.RET()
}
