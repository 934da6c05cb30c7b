package checkpoint

import (
	"context"
	"errors"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Export writes the state to a directory, as executor.SaveState does: a file for each variable, and the progress. It replaces what an earlier Save has left
// there, whole or not at all. It has one variable in memory at a time.
func (c *Checkpoint) Export(ctx context.Context, dir string) (err error) {
	w, err := executor.NewStateWriter(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.Begin(); err != nil {
		return err
	}
	for _, name := range c.Variables() {
		dtype, dims, _ := c.Describe(name)
		t, err := tensor.New(dtype, dims...)
		if err != nil {
			return fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
		if err := c.Load(ctx, name, 0, t); err != nil {
			return err
		}
		if err := w.Save(name, []*tensor.Tensor{t}, true); err != nil {
			return err
		}
	}
	progress := c.Progress()
	return w.Commit(&progress)
}
