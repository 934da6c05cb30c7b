package comm

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// NoBlock stands for a block that a Service does not have.
const NoBlock program.BlockIndex = program.NoBlock

// A Service is the content of a listen_and_serv op. The blocks of a round run in the order of the fields: all of Prepare, Global, LRDecay, all of
// Optimize. Blocks of one list write different variables, so they may run at the same time.
type Service struct {
	Server   int  // index of this pserver
	Sync     bool // rounds merge the contributions of all trainers; else the server applies each by itself
	Prepare  []program.BlockIndex
	Global   program.BlockIndex // exchanges the results of Prepare with the other pservers; NoBlock for none
	LRDecay  program.BlockIndex // learning-rate schedule; NoBlock for none
	Optimize []program.BlockIndex
	Grads    []Contribution // gradients, in the order of the op
	States   []Contribution // state of the forward pass that this server keeps; Block is NoBlock
	Rows     []string       // variables of block 0 that travel as rows of a table (compress.SparseForm), gradients and parameters
	Slices   []Slice        // everything that this server keeps from round to round, in the order of the op
	Tables   []GrownTable   // those of Slices that grow, in the order of the op
}

// A Contribution is a variable of block 0 that every trainer sends in every round.
type Contribution struct {
	Name  string
	Block program.BlockIndex // the optimize block that reads it
	Merge ops.Merge          // never MergeNone
	Into  string             // the variable of block 0 that holds the merge; empty: Name itself
}

// Target returns the variable of block 0 that holds the merge. It differs from Name where contributions are compressed.
func (c Contribution) Target() string { return cmp.Or(c.Into, c.Name) }

// ServiceOf reads a listen_and_serv op. It does not check that the blocks exist; the verifier of the program does. The error is a *fault.Fault.
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
	s.Rows = a.Strs("rows_names")
	if err := s.readSlices(a); err != nil {
		return Service{}, err
	}
	if err := s.readTables(a); err != nil {
		return Service{}, err
	}
	return s, nil
}

func (s *Service) readServer(a attributes) (err error) {
	if s.Server, err = ParseAddress(a.Str("endpoint")); err != nil {
		return err
	}
	if id := a.Int("pserver_id"); id != int64(s.Server) {
		return invalid("one pserver", "pserver_id %d with the endpoint %s", id, a.Str("endpoint"))
	}
	return nil
}

// readStages checks that no block runs twice in a round, and that block 0, which holds the op itself, does not run.
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
	into := a.Strs("grad_into")
	if len(into) == 0 {
		into = make([]string, len(names))
	} else if len(into) != len(names) || slices.Contains(into, "") {
		return invalid("names, one for each of grad_names", "%d grad_names and the grad_into %q", len(names), into)
	}
	for i, name := range names {
		block := program.BlockIndex(blocks[i])
		if int64(block) != blocks[i] || !slices.Contains(s.Optimize, block) {
			return invalid("one of optimize_blocks", "gradient %s for block %d", fault.Quote(name), blocks[i])
		}
		s.Grads = append(s.Grads, Contribution{name, block, ops.Merge(merges[i]), into[i]})
	}
	names, merges = a.Strs("state_names"), a.Ints("state_merge")
	if len(merges) != len(names) {
		return invalid("lists of one length", "%d state_names and %d state_merge", len(names), len(merges))
	}
	for i, name := range names {
		s.States = append(s.States, Contribution{Name: name, Block: NoBlock, Merge: ops.Merge(merges[i])})
	}
	have, merged := map[string]bool{}, map[string]bool{}
	for _, c := range slices.Concat(s.Grads, s.States) {
		if c.Name == "" || c.Name == program.Empty || have[c.Name] {
			return invalid("names of variables, each once", "the contribution %s", fault.Quote(c.Name))
		}
		if into := c.Target(); into == program.Empty || merged[into] {
			return invalid("names of variables, each once", "the merge of %s into %s", fault.Quote(c.Name), fault.Quote(into))
		}
		merged[c.Target()] = true
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

// invalid makes the error of an op that contradicts itself. got is a format.
func invalid(want, got string, args ...any) error {
	return fault.E(fault.InvalidProgram, fault.Op(serveOp), fault.Gotf(got, args...), fault.Want(want))
}

// A Slice is a variable that a pserver keeps from round to round: a whole variable of the user's program, or some of its rows. Checkpoints consist
// of slices. From a file of a whole variable, a pserver takes the rows of its slice.
type Slice struct {
	Name      string // at the pserver
	Origin    string // in the user's program
	FirstRow  int64  // of the origin
	Rows      int64  // 1 for rank 0
	TotalRows int64  // of the origin
	Striped   bool   // its rows are of the origin in the order of stripes (kernel.Stripes)
	Table     string // the table on servers alone that it is a part of, or of what goes with it, by its variable in the user's program; empty: none
}

// Whole reports whether the slice has all rows of its origin.
func (s Slice) Whole() bool { return s.Rows == s.TotalRows }

func (s *Service) readSlices(a attributes) error {
	names, origins := a.Strs("slice_names"), a.Strs("slice_origins")
	first, rows, total := a.Ints("slice_first_rows"), a.Ints("slice_rows"), a.Ints("slice_total_rows")
	striped, tables, n := a.Strs("striped_names"), a.Strs("slice_tables"), len(names)
	if len(tables) == 0 {
		tables = make([]string, n)
	}
	if len(tables) != n {
		return invalid("a name for each of slice_names, empty for none", "%d slice_tables", len(tables))
	}
	if len(origins) != n || len(first) != n || len(rows) != n || len(total) != n {
		return invalid("lists of one length", "%d slice_names, %d slice_origins, %d slice_first_rows, %d slice_rows and %d slice_total_rows",
			n, len(origins), len(first), len(rows), len(total))
	}
	have := map[string]bool{}
	for i, name := range names {
		if name == "" || name == program.Empty || origins[i] == "" || have[name] {
			return invalid("names of variables, each once", "the slice %s of %s", fault.Quote(name), fault.Quote(origins[i]))
		}
		if first[i] < 0 || rows[i] < 0 || rows[i] > total[i] || first[i] > total[i]-rows[i] {
			return invalid("rows that the variable has", "%d rows from row %d of %d in %s", rows[i], first[i], total[i], fault.Quote(name))
		}
		have[name] = true
		s.Slices = append(s.Slices, Slice{name, origins[i], first[i], rows[i], total[i], slices.Contains(striped, name), tables[i]})
	}
	for i, name := range striped {
		if !have[name] || slices.Contains(striped[:i], name) {
			return invalid("some of slice_names, each once", "%s among striped_names", fault.Quote(name))
		}
	}
	return nil
}

const serveOp = "listen_and_serv"

func init() {
	ops.Register(ops.Def{
		Type:  serveOp,
		Class: ops.Serve,
		Doc: "Serves the variables of block 0 until every trainer has completed. A round merges the contributions of all trainers and then runs " +
			"the blocks: each of prepare_blocks, global_block, the learning-rate block, each of optimize_blocks.",
		Inputs: []ops.Slot{{Name: "X", Doc: "ignored; in Fluid, the variables that the server serves", Duplicable: true, Dispensable: true}},
		Attrs: []ops.Attr{
			{Name: "endpoint", Kind: "", Doc: "logical address of this pserver, such as pserver:0"},
			{Name: "pserver_id", Kind: int32(0), Doc: "index of this pserver, the number in endpoint"},
			{Name: "sync_mode", Default: true, Doc: "merge the contributions of all trainers in rounds; else apply each by itself"},
			{Name: "prepare_blocks", Default: []program.BlockIndex{},
				Doc: "blocks that compute this pserver's part of a value that all pservers exchange; sync_mode only"},
			{Name: "global_block", Default: int32(NoBlock), Doc: "block that exchanges these parts; -1 for none; sync_mode only"},
			{Name: "lr_decay_block_id", Default: int32(NoBlock), Doc: "block of the learning-rate schedule; -1 for none"},
			{Name: "optimize_blocks", Kind: []program.BlockIndex{}, Doc: "blocks that update one slice of a parameter each"},
			{Name: "grad_names", Default: []string{}, Doc: "variables that trainers send gradients to"},
			{Name: "grad_block_ids", Default: []int32{}, Doc: "the optimize block of each of grad_names"},
			{Name: "grad_merge", Default: []int32{}, Doc: "how contributions to each of grad_names merge: 1 mean weighted by rows, 2 sum, 3 the first"},
			{Name: "grad_into", Default: []string{}, Doc: "the variable that contributions to each of grad_names merge into; empty: grad_names themselves"},
			{Name: "state_names", Default: []string{}, Doc: "variables that the forward pass of trainers updates and this pserver keeps"},
			{Name: "state_merge", Default: []int32{}, Doc: "how each of state_names merges: 1 mean weighted by rows, 2 sum of the changes, 3 the first"},
			{Name: "rows_names", Default: []string{}, Doc: "variables that travel as rows of a table: some of grad_names, and what trainers receive"},
			{Name: "slice_names", Default: []string{}, Doc: "variables that this pserver keeps from round to round; a checkpoint holds them"},
			{Name: "slice_origins", Default: []string{}, Doc: "the variable of the user's program that each of slice_names is a part of"},
			{Name: "slice_first_rows", Default: []int64{}, Doc: "first row of each of slice_names in its origin"},
			{Name: "slice_rows", Default: []int64{}, Doc: "rows of each of slice_names; 1 for rank 0"},
			{Name: "slice_total_rows", Default: []int64{}, Doc: "rows of the origin of each of slice_names"},
			{Name: "striped_names", Default: []string{}, Doc: "those of slice_names whose rows are of the origin in the order of stripes (kernel.Stripes)"},
			{Name: "slice_tables", Default: []string{}, Doc: "the table on servers alone that each of slice_names goes with, by its variable in the user's program; empty: none"},
			{Name: "table_names", Default: []string{}, Doc: "those of slice_names that are tables that grow"},
			{Name: "table_keys", Default: []string{}, Doc: "those of slice_names with the keys of each of table_names"},
			{Name: "table_indexes", Default: []string{}, Doc: "those of slice_names with the index of each of table_names"},
			{Name: "table_counts", Default: []string{}, Doc: "those of slice_names with the counts of each of table_names; empty: none"},
			{Name: "table_seeds", Default: []int64{}, Doc: "seed of the initial values of each of table_names"},
			{Name: "table_ranges", Default: []float32{}, Doc: "lowest and highest initial value of each of table_names"},
			{Name: "grad_to_block_id", Default: []string{},
				Doc: "gradient:block as Fluid writes it, for tools that draw programs; EDL does not read it"},
		},
		Infer: func(s *ops.Shapes) error {
			_, err := serviceOf(s)
			return err
		},
		Bind: bindServe,
	})
}

func bindServe(b *ops.Binding) (ops.Kernel, error) {
	server, err := server(b)
	if err != nil {
		return nil, err
	}
	if b.Env.Blocks == nil {
		return nil, needsCluster("nothing that runs the blocks of the program")
	}
	if _, err := serviceOf(b); err != nil {
		return nil, err
	}
	op, blocks := b.Op(), b.Env.Blocks
	return func(ctx context.Context) error { return server.Serve(ctx, op, blocks) }, nil
}

func init() {
	ops.Register(ops.Def{
		Type:  "exchange_partials",
		Class: ops.Dist,
		Doc: "Gives every pserver the X of all pservers in the current round, such as the exact partial sums of a global norm. X must have one " +
			"name, type and shape on all of them. It blocks until all have published theirs.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "what this pserver contributes"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the X of each pserver, in the order of their indexes", Duplicable: true}},
		Infer: func(s *ops.Shapes) error {
			x := s.In("X")
			if x.Kind != program.LoDTensor {
				return s.Errorf("X", "a tensor")
			}
			s.Set("Out", x.DType, x.Dims...)
			return nil
		},
		Bind: bindExchange,
	})
}

func bindExchange(b *ops.Binding) (ops.Kernel, error) {
	server, err := server(b)
	if err != nil {
		return nil, err
	}
	name, own, all := b.Op().In("X"), b.In("X"), b.Outs("Out")
	if own == nil || slices.ContainsFunc(all, func(t *tensor.Tensor) bool { return t == nil }) {
		return nil, fault.E(fault.InvalidProgram, fault.Got("a variable without a value"), fault.Want("X and an Out for each pserver"))
	}
	for _, t := range all {
		if t.DType() != own.DType() || !slices.Equal(t.Dims(), own.Dims()) {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("Out %s", t), fault.Wantf("%v as X", own))
		}
	}
	return func(ctx context.Context) error { return server.Exchange(ctx, name, own, all) }, nil
}
