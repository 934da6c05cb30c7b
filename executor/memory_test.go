package executor_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A small program that asks for terabytes is refused before they are allocated, and the message says which op asks.
func TestAProgramThatNeedsTooMuchMemoryIsRefused(t *testing.T) {
	filled := func(rows int64, persistable bool) *program.Program {
		p := program.New()
		b := p.Global()
		b.EnsureVar(program.Var{Name: "huge", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{rows, 1 << 10}, Persistable: persistable})
		op := b.Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {"huge"}}})
		op.SetAttr("shape", []int64{rows, 1 << 10})
		return p
	}
	for name, c := range map[string]struct {
		rows        int64
		persistable bool
		options     []executor.Option
		refused     bool
	}{
		"4 TiB on any machine":  {1 << 30, false, nil, true},
		"a parameter of 4 TiB":  {1 << 30, true, nil, true},
		"a bound of the caller": {1 << 10, false, []executor.Option{executor.WithMemory(1 << 20)}, true},
		"within this bound":     {1 << 10, false, []executor.Option{executor.WithMemory(1 << 23)}, false},
	} {
		e := executor.New(c.options...)
		_, err := e.Run(t.Context(), filled(c.rows, c.persistable), nil, "huge")
		if refused := fault.KindOf(err) == fault.TooLarge; refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
		if c.refused && (!strings.Contains(err.Error(), "op fill_constant") || !strings.Contains(err.Error(), `"huge"`)) {
			t.Errorf("%s: the op and the variable are not in %q", name, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
