package executor

import (
	"bufio"
	"errors"
	"io"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// load reads the next stream as variable name of p.
func (r *tensorReader) load(s *Scope, p *program.Program, name string) error {
	t, err := r.next()
	if err != nil {
		return ofVariable(name, err)
	}
	declared, _ := p.Global().Var(name)
	if t.DType() != declared.DType || !ops.Compatible(t.Dims(), declared.Dims) {
		return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(t.String()+" in the file"), fault.Want(ops.MetaOf(declared).String()))
	}
	return s.Set(name, t)
}

// ofVariable adds the variable to a fault.
func ofVariable(name string, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return fault.E(fault.Internal, fault.Var(name), fault.Cause(err))
	}
	c := *f
	c.Variable = name
	return &c
}

// A tensorReader reads the streams of one file in order.
type tensorReader struct {
	r     *bufio.Reader
	count int
}

func (r *tensorReader) next() (*tensor.Tensor, error) {
	if _, err := r.r.Peek(1); err == io.EOF {
		return nil, fault.E(fault.Corrupt, fault.Gotf("a file of %d tensors", r.count), fault.Want("more"))
	}
	r.count++
	return tensor.Read(r.r, tensor.Limits{})
}

// end fails when bytes remain: then the file belongs to another program.
func (r *tensorReader) end() error {
	if _, err := r.r.Peek(1); err != io.EOF {
		return fault.E(fault.Corrupt, fault.Gotf("bytes behind %d tensors", r.count), fault.Want("the end of the file"),
			fault.Hint("the file belongs to a program with other variables"))
	}
	return nil
}
