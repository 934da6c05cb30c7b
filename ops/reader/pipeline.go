package reader

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A Pipeline says how to make the batches of a read op from record files.
type Pipeline struct {
	Dataset       string        // logical name
	Fields        []program.Var // of one sample: dtype and dims without the batch; named like the outputs of the read op
	ShuffleBuffer int           // samples shuffled at a time; 0 for the order of the files
	ShuffleGroup  int           // of them, samples that stay together; 1 for none
	ShuffleSeed   int64
	Batch         int  // samples of the global batch
	DropLast      bool // leave out the last batch if it is smaller
	Prefetch      int  // batches prepared ahead; 0 for none
	Passes        int  // how often the dataset is read, at least 1
}

// ReadOp returns the op through which a block reads its own data, nil if there is none. A block may have one.
func ReadOp(block *program.Block) (read *program.Op, err error) {
	for _, op := range block.Ops {
		if op.Type != readOp {
			continue
		}
		if read != nil {
			return nil, ops.At(op, fault.E(fault.Unsupported, fault.Got("a second read op"), fault.Want("one reader per program")))
		}
		read = op
	}
	return read, nil
}

// Check finds mistakes in how a block reads its own data: those that ReadOp and PipelineOf find. A block that reads none has none.
func Check(block *program.Block) *fault.Fault {
	read, err := ReadOp(block)
	if err == nil && read != nil {
		_, err = PipelineOf(block, read)
	}
	if f, ok := err.(*fault.Fault); ok || err == nil {
		return f
	}
	return fault.E(fault.Internal, fault.Cause(err))
}

// PipelineOf follows the readers of a read op of block back to the file reader. The error is a *fault.Fault that names the wrong op: its attributes
// are wrong, no op or more than one creates its reader, a decorator stands twice, a shuffle stands after the batch, or there is no batch.
func PipelineOf(block *program.Block, read *program.Op) (Pipeline, error) {
	chain, err := chainOf(block, read)
	if err != nil {
		return Pipeline{}, err
	}
	p := Pipeline{Passes: 1}
	yields := ops.Meta{} // of the reader below
	for _, op := range chain {
		s, err := ops.Infer(op, func(string) (ops.Meta, bool) { return yields, true })
		if err != nil {
			return Pipeline{}, err
		}
		if err := p.add(s); err != nil {
			return Pipeline{}, ops.At(op, err)
		}
		yields = s.Outs("Out")[0]
	}
	if p.Batch == 0 {
		return Pipeline{}, ops.At(read, fault.E(fault.InvalidProgram, fault.Var(read.In("Reader")), fault.Got("a reader of single samples"),
			fault.Want("a reader of batches"), fault.Hint("put "+batchOp+" after the file reader")))
	}
	for i := range p.Fields {
		p.Fields[i].Name = read.Outputs["Out"][i]
	}
	return p, nil
}

// add sets what one op of the chain defines.
func (p *Pipeline) add(s *ops.Shapes) error {
	switch s.Op().Type {
	case recordIOOp:
		p.Dataset = s.Str("dataset")
		for _, f := range s.Outs("Out")[0].Fields {
			p.Fields = append(p.Fields, f.Copy(""))
		}
	case shuffleOp:
		if p.Batch > 0 {
			return fault.E(fault.InvalidProgram, fault.Got("a shuffle of batches"), fault.Want("a shuffle of samples"),
				fault.Hint("put "+shuffleOp+" before "+batchOp))
		}
		p.ShuffleBuffer, p.ShuffleGroup, p.ShuffleSeed = int(s.Int("buffer_size")), int(s.Int("group_size")), s.Int("seed")
	case batchOp:
		p.Batch, p.DropLast = int(s.Int("batch_size")), s.Bool("drop_last")
	case doubleBufferOp:
		p.Prefetch = int(s.Int("capacity"))
	case multiPassOp:
		p.Passes = int(s.Int("pass_num"))
	}
	return nil
}

// chainOf lists the ops from the file reader to the read op. The op that creates a reader must stand before the op that takes it, so the search
// ends in every program.
func chainOf(block *program.Block, read *program.Op) ([]*program.Op, error) {
	if read.Type != readOp {
		return nil, ops.At(read, fault.E(fault.InvalidArgument, fault.Got("the op "+fault.Quote(read.Type)), fault.Want(readOp)))
	}
	at := slices.Index(block.Ops, read)
	if at < 0 {
		return nil, ops.At(read, fault.E(fault.InvalidArgument, fault.Got("an op of another block"), fault.Wantf("an op of block %d", block.Index)))
	}
	chain := []*program.Op{read}
	have := map[string]bool{}
	for slot := "Reader"; ; slot = underlying {
		user := chain[len(chain)-1]
		var err error
		if at, err = creatorOf(block, user, user.In(slot), at); err != nil {
			return nil, err
		}
		op := block.Ops[at]
		if have[op.Type] {
			return nil, ops.At(op, fault.E(fault.InvalidProgram, fault.Var(op.Out("Out")),
				fault.Got("a second "+op.Type+" in one chain of readers"), fault.Want("each at most once")))
		}
		have[op.Type] = true
		chain = append(chain, op)
		if op.Type == recordIOOp {
			slices.Reverse(chain)
			return chain, nil
		}
	}
}

// creatorOf returns the index of the one op that creates a reader. It must stand before position at.
func creatorOf(block *program.Block, user *program.Op, name string, at int) (int, error) {
	found := -1
	for i, op := range block.Ops {
		if !slices.Contains(op.OutputNames(), name) {
			continue
		}
		if found >= 0 {
			return 0, ops.At(op, fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("a second op that creates the reader"),
				fault.Want("one")))
		}
		found = i
	}
	if found < 0 || found >= at {
		return 0, ops.At(user, fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("a reader that no op before this one creates"),
			fault.Want("one that "+recordIOOp+" or a decorator of it creates")))
	}
	if def, ok := ops.Lookup(block.Ops[found].Type); !ok || def.Class != ops.Read || block.Ops[found].Type == readOp {
		return 0, ops.At(block.Ops[found], fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("an op that creates no readers"),
			fault.Want("an op whose type begins with create_")))
	}
	return found, nil
}
