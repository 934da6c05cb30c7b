package comm

import (
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// NoBlock is the index of a block that a Service does not have.
const NoBlock program.BlockIndex = program.NoBlock

// A Service is what a listen_and_serv op says. The blocks of a round run in the order of the fields: all of Prepare, Global, LRDecay,
// all of Optimize. Blocks of one list write different variables, so they may run at the same time.
type Service struct {
	Server   int  // index of this pserver
	Sync     bool // a round merges the contributions of all trainers; else each is applied by itself
	Prepare  []program.BlockIndex
	Global   program.BlockIndex // runs once, exchanging what Prepare computed with the other pservers; NoBlock for none
	LRDecay  program.BlockIndex // learning-rate schedule; NoBlock for none
	Optimize []program.BlockIndex
	Grads    []Contribution // gradients, in the order of the op
	States   []Contribution // state of the forward pass that lives here; its Block is NoBlock
	Slices   []Slice        // everything that lives here from round to round, in the order of the op
}

// A Contribution is a variable of block 0 that every trainer sends in every round.
type Contribution struct {
	Name  string
	Block program.BlockIndex // the optimize block that reads it
	Merge ops.Merge          // never MergeNone
}

// ServiceOf reads a listen_and_serv op. Whether the blocks exist is for the program's verifier to say. The error is a
// *fault.Fault.
func ServiceOf(op *program.Op) (Service, error) {
	if op.Type != serveOp {
		return Service{}, ops.At(op, fault.E(fault.InvalidArgument, fault.Got("the op "+fault.Quote(op.Type)), fault.Want(serveOp)))
	}
	s, err := ops.Infer(op, func(string) (ops.Meta, bool) { return ops.Meta{}, true })
	if err != nil {
		return Service{}, err
	}
	return serviceOf(s)
}

func serviceOf(a attributes) (Service, error) {
	s := Service{Sync: a.Bool("sync_mode"), Prepare: blocks(a, "prepare_blocks"), Optimize: blocks(a, "optimize_blocks")}
	if err := s.readServer(a); err != nil {
		return Service{}, err
	}
	if err := s.readStages(a); err != nil {
		return Service{}, err
	}
	if err := s.readContributions(a); err != nil {
		return Service{}, err
	}
	if err := s.readSlices(a); err != nil {
		return Service{}, err
	}
	return s, nil
}

func (s *Service) readServer(a attributes) (err error) {
	if s.Server, err = ParseAddress(a.Str("endpoint")); err != nil {
		return err
	}
	if id := a.Int("pserver_id"); id != int64(s.Server) {
		return invalid("one pserver", "pserver_id %d beside the endpoint %s", id, a.Str("endpoint"))
	}
	return nil
}

// readStages checks that no block runs twice in a round, and that block 0, which holds the op itself, does not run at all.
func (s *Service) readStages(a attributes) (err error) {
	if s.Global, err = block(a, "global_block"); err != nil {
		return err
	}
	if s.LRDecay, err = block(a, "lr_decay_block_id"); err != nil {
		return err
	}
	stages := slices.Concat(s.Prepare, s.Optimize)
	for _, b := range []program.BlockIndex{s.Global, s.LRDecay} {
		if b != NoBlock {
			stages = append(stages, b)
		}
	}
	have := map[program.BlockIndex]bool{}
	for _, b := range stages {
		if b < 1 {
			return invalid("a block other than block 0", "block %d as a stage of a round", b)
		}
		if have[b] {
			return invalid("each block once", "block %d as two stages of a round", b)
		}
		have[b] = true
	}
	if !s.Sync && (len(s.Prepare) > 0 || s.Global != NoBlock) {
		return invalid("pservers that exchange partial results in rounds that they share", "prepare_blocks or global_block without sync_mode")
	}
	return nil
}

func (s *Service) readContributions(a attributes) error {
	names, blocks, merges := a.Strs("grad_names"), a.Ints("grad_block_ids"), a.Ints("grad_merge")
	if len(blocks) != len(names) || len(merges) != len(names) {
		return invalid("lists of one length", "%d grad_names, %d grad_block_ids and %d grad_merge", len(names), len(blocks), len(merges))
	}
	for i, name := range names {
		block := program.BlockIndex(blocks[i])
		if int64(block) != blocks[i] || !slices.Contains(s.Optimize, block) {
			return invalid("one of optimize_blocks", "gradient %s for block %d", fault.Quote(name), blocks[i])
		}
		s.Grads = append(s.Grads, Contribution{name, block, ops.Merge(merges[i])})
	}
	names, merges = a.Strs("state_names"), a.Ints("state_merge")
	if len(merges) != len(names) {
		return invalid("lists of one length", "%d state_names and %d state_merge", len(names), len(merges))
	}
	for i, name := range names {
		s.States = append(s.States, Contribution{name, NoBlock, ops.Merge(merges[i])})
	}
	have := map[string]bool{}
	for _, c := range slices.Concat(s.Grads, s.States) {
		if c.Name == "" || c.Name == program.Empty || have[c.Name] {
			return invalid("names of variables, each once", "the contribution %s", fault.Quote(c.Name))
		}
		if !mergeable(int64(c.Merge)) {
			return invalid("1 for a mean or 2 for a sum", "the merge %d of %s", c.Merge, fault.Quote(c.Name))
		}
		have[c.Name] = true
	}
	return nil
}

func blocks(a attributes, name string) []program.BlockIndex {
	list, _ := a.Op().Attrs[name].([]program.BlockIndex)
	return list
}

// block reads an attribute that holds the index of a block or NoBlock.
func block(a attributes, name string) (program.BlockIndex, error) {
	index := a.Int(name)
	if index < int64(NoBlock) || index > math.MaxInt32 {
		return NoBlock, invalid("the index of a block, or -1 for none", "%s = %d", name, index)
	}
	return program.BlockIndex(index), nil
}

// invalid makes the fault of an op that contradicts itself: what is wanted, and what was got as a format.
func invalid(want, got string, args ...any) error {
	return fault.E(fault.InvalidProgram, fault.Op(serveOp), fault.Gotf(got, args...), fault.Want(want))
}
