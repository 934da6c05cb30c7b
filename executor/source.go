package executor

import (
	"context"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A BatchSource delivers the batches of a run, over all its passes. A local run reads them from files; a trainer of a
// distributed job reads what a coordinator assigns to it.
type BatchSource interface {
	// Next returns the next batch, or io.EOF after the last one. The batch is valid until Next is called again, and that happens only when
	// its step has ended well. When ctx ends, Next returns promptly.
	Next(ctx context.Context) (*Batch, error)
}

// A Batch is what one step trains.
type Batch struct {
	Tensors    []*tensor.Tensor // one for each variable of ReadVariables; unused when Step.Rows is 0
	Step       ops.Step         // which step it is, and which rows are in Tensors
	GlobalRows int64            // rows of the step over all trainers
	Pass       int
	Records    []dataset.Range // where the rows come from, in row order

	// Feed, where it is not nil, stands for Tensors in a program that is fed. Such a batch may have other dims than the one before, and names in Fetch
	// what its step reports, in place of TrainOptions.Fetch.
	Feed  Feed
	Fetch []string
}

// ReadOp returns the op through which p reads its own data.
func ReadOp(p *program.Program) (*program.Op, error) {
	var read *program.Op
	for _, op := range p.Global().Ops {
		if op.Type != "read" {
			continue
		}
		if read != nil {
			return nil, ops.At(op, fault.E(fault.Unsupported, fault.Got("a second read op"), fault.Want("one reader per program")))
		}
		read = op
	}
	if read == nil {
		return nil, fault.E(fault.InvalidProgram, fault.Got("a program without a read op"), fault.Want("a program that reads its own data"),
			fault.Hint("read a dataset with layers.OpenDataset, or feed it with Run"))
	}
	return read, nil
}

// ReadVariables returns the variables that the read op of p fills, in order.
func ReadVariables(p *program.Program) ([]string, error) {
	read, err := ReadOp(p)
	if err != nil {
		return nil, err
	}
	return read.Outputs["Out"], nil
}

// check compares a batch with what a program reads.
func (b *Batch) check(variables []string) error {
	if len(b.Tensors) != len(variables) {
		return fault.E(fault.Internal, fault.Gotf("a batch of %d tensors", len(b.Tensors)),
			fault.Wantf("%d, one for each variable that is read", len(variables)))
	}
	return nil
}
