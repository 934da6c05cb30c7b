package fileio_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/fileio"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

type attrs = map[string]program.Attr

var errDisk = errors.New("the disk is full")

// shelf is an ops.Storage in memory. It refuses the name "full".
type shelf struct {
	files map[string][]*tensor.Tensor
	calls []string
}

func (s *shelf) Save(name string, tensors []*tensor.Tensor, overwrite bool) error {
	s.calls = append(s.calls, fmt.Sprintf("save %s %v", name, overwrite))
	if name == "full" {
		return errDisk
	}
	s.files[name] = nil
	for _, t := range tensors {
		s.files[name] = append(s.files[name], t.Clone())
	}
	return nil
}

func (s *shelf) SaveShort(name string, t *tensor.Tensor, overwrite bool) error {
	s.calls = append(s.calls, fmt.Sprintf("short %s", name))
	return s.Save(name, []*tensor.Tensor{t}, overwrite)
}

func (s *shelf) Load(name string, into []*tensor.Tensor) error {
	s.calls = append(s.calls, "load "+name)
	file, ok := s.files[name]
	if !ok || len(file) != len(into) {
		return errDisk
	}
	for i, t := range into {
		if err := t.CopyFrom(file[i]); err != nil {
			return err
		}
	}
	return nil
}

// op makes a save or load op over the variables.
func op(opType string, a attrs, variables ...string) *program.Op {
	slots := map[string][]string{"X": variables}
	if strings.HasPrefix(opType, "load") {
		return &program.Op{Type: opType, Outputs: map[string][]string{"Out": variables}, Attrs: a}
	}
	return &program.Op{Type: opType, Inputs: slots, Attrs: a}
}

func infer(op *program.Op, kind program.VarKind) (*ops.Shapes, error) {
	return ops.Infer(op, func(string) (ops.Meta, bool) {
		return ops.Meta{Kind: kind, DType: tensor.Float32, Dims: []int64{2}}, true
	})
}

func bind(op *program.Op, env *ops.Env, tensors ...*tensor.Tensor) (ops.Kernel, error) {
	def, _ := ops.Lookup(op.Type)
	return def.Bind(ops.NewBinding(op, def, env, map[string][]*tensor.Tensor{"X": tensors}, map[string][]*tensor.Tensor{"Out": tensors}, nil))
}

func vector(values ...float32) *tensor.Tensor {
	v, _ := tensor.FromSlice(values)
	return v
}
