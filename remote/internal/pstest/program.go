// Package pstest runs parameter servers for tests and benchmarks: over loopback, with programs that are Go functions, and with trainers that send
// single messages.
package pstest

import (
	"context"
	"fmt"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Program is the program of a pserver: variables, the attributes of listen_and_serv, and a function for each block.
type Program struct {
	Service   comm.Service // as listen_and_serv describes it; the zero Global and LRDecay mean none
	Variables map[string]*tensor.Tensor
	Blocks    map[program.BlockIndex]func(ctx context.Context, step ops.Step) error
	Uses      map[program.BlockIndex][]string // what each block names
	InPlace   bool                            // only updates read gradients, so the server may let them read the only contribution where it is
	ByRows    map[string]string               // variables of which a round changes only the rows that another one has
}

var _ ops.BlockRunner = (*Program)(nil)

// RunBlock runs the function of a block.
func (p *Program) RunBlock(ctx context.Context, block program.BlockIndex, step ops.Step) error {
	run, ok := p.Blocks[block]
	if !ok {
		return fault.E(fault.InvalidProgram, fault.Gotf("block %d", block))
	}
	return run(ctx, step)
}

// Variable returns a variable.
func (p *Program) Variable(name string) (*tensor.Tensor, bool) {
	t, ok := p.Variables[name]
	return t, ok
}

// Names returns what a block names.
func (p *Program) Names(block program.BlockIndex) (map[string]bool, error) {
	names := map[string]bool{}
	for _, name := range p.Uses[block] {
		names[name] = true
	}
	return names, nil
}

// ReadByUpdate returns the variables that may refer to other memory from round to round.
func (p *Program) ReadByUpdate() map[string]bool {
	names := map[string]bool{}
	for name := range p.Variables {
		names[name] = p.InPlace && strings.HasSuffix(name, program.GradSuffix)
	}
	return names
}

// ChangedByRows returns the variables of which a round changes only the rows that another variable has.
func (p *Program) ChangedByRows() map[string]string { return p.ByRows }

// Op is the listen_and_serv op of the program.
func (p *Program) Op() *program.Op {
	s := p.Service
	optional := func(b program.BlockIndex) int32 {
		if b == 0 {
			return int32(comm.NoBlock)
		}
		return int32(b)
	}
	op := &program.Op{Type: "listen_and_serv", Attrs: map[string]program.Attr{
		"endpoint": fmt.Sprintf("pserver:%d", s.Server), "pserver_id": int32(s.Server), "sync_mode": s.Sync,
		"prepare_blocks": append([]program.BlockIndex{}, s.Prepare...), "optimize_blocks": append([]program.BlockIndex{}, s.Optimize...),
		"global_block": optional(s.Global), "lr_decay_block_id": optional(s.LRDecay),
	}}
	names, blocks, merges := []string{}, []int32{}, []int32{}
	for _, c := range s.Grads {
		names, blocks, merges = append(names, c.Name), append(blocks, int32(c.Block)), append(merges, int32(c.Merge))
	}
	op.Attrs["grad_names"], op.Attrs["grad_block_ids"], op.Attrs["grad_merge"] = names, blocks, merges
	into := []string{}
	for _, c := range s.Grads {
		into = append(into, c.Target())
	}
	op.Attrs["grad_into"] = into
	op.Attrs["rows_names"] = append([]string{}, s.Rows...)
	names, merges = []string{}, []int32{}
	for _, c := range s.States {
		names, merges = append(names, c.Name), append(merges, int32(c.Merge))
	}
	op.Attrs["state_names"], op.Attrs["state_merge"] = names, merges
	origins, belongs, first, rows, total := []string{}, []string{}, []int64{}, []int64{}, []int64{}
	names = []string{}
	for _, slice := range s.Slices {
		names, origins, belongs = append(names, slice.Name), append(origins, slice.Origin), append(belongs, slice.Table)
		first, rows, total = append(first, slice.FirstRow), append(rows, slice.Rows), append(total, slice.TotalRows)
	}
	op.Attrs["slice_names"], op.Attrs["slice_origins"], op.Attrs["slice_tables"] = names, origins, belongs
	op.Attrs["slice_first_rows"], op.Attrs["slice_rows"], op.Attrs["slice_total_rows"] = first, rows, total
	tables, keys, indexes, counts := []string{}, []string{}, []string{}, []string{}
	for _, t := range s.Tables {
		tables, keys, indexes, counts = append(tables, t.Name), append(keys, t.Keys), append(indexes, t.Index), append(counts, t.Counts)
	}
	op.Attrs["table_names"], op.Attrs["table_keys"], op.Attrs["table_indexes"], op.Attrs["table_counts"] = tables, keys, indexes, counts
	op.Attrs["table_seeds"], op.Attrs["table_ranges"] = make([]int64, len(tables)), make([]float32, 2*len(tables))
	return op
}

// SGD is a program that holds vectors of float32: the parameter "w0" with its gradient "w0@GRAD", updated by block 1 with rate, and so on. sizes
// are the lengths of the parameters.
func SGD(server int, sync bool, rate float32, sizes ...int64) *Program {
	p := &Program{Service: comm.Service{Server: server, Sync: sync}, Variables: map[string]*tensor.Tensor{},
		Blocks: map[program.BlockIndex]func(context.Context, ops.Step) error{}, Uses: map[program.BlockIndex][]string{}}
	for i, n := range sizes {
		name := fmt.Sprintf("w%d", i)
		w, g := Vector(n), Vector(n)
		p.Variables[name], p.Variables[name+"@GRAD"] = w, g
		block := program.BlockIndex(i + 1)
		p.Service.Optimize = append(p.Service.Optimize, block)
		p.Service.Grads = append(p.Service.Grads, comm.Contribution{Name: name + "@GRAD", Block: block, Merge: ops.MergeMean})
		p.Service.Slices = append(p.Service.Slices, comm.Slice{Name: name, Origin: name, Rows: n, TotalRows: n})
		p.Uses[block] = []string{name, name + "@GRAD"}
		p.Blocks[block] = func(context.Context, ops.Step) error {
			grad := g.Float32s()
			for i := range w.Float32s() {
				w.Float32s()[i] -= rate * grad[i]
			}
			return nil
		}
	}
	return p
}

// Momentum is SGD with a velocity "v0" for each parameter "w0", and so on, and with the rate "lr", which begins with rate and becomes nine tenths of what it
// was before each step. The velocities stand behind all parameters, and the rate behind them.
func Momentum(server int, sync bool, rate float32, sizes ...int64) *Program {
	p := SGD(server, sync, rate, sizes...)
	lr, schedule := Filled(1, rate), program.BlockIndex(len(sizes)+1)
	p.Variables["lr"], p.Service.LRDecay, p.Uses[schedule] = lr, schedule, []string{"lr"}
	p.Blocks[schedule] = func(context.Context, ops.Step) error {
		lr.Float32s()[0] *= 0.9
		return nil
	}
	for i, n := range sizes {
		name, block := fmt.Sprintf("v%d", i), program.BlockIndex(i+1)
		v, w, g := Vector(n), p.Variables[fmt.Sprintf("w%d", i)], p.Variables[fmt.Sprintf("w%d@GRAD", i)]
		p.Variables[name], p.Uses[block] = v, append(p.Uses[block], name, "lr")
		p.Service.Slices = append(p.Service.Slices, comm.Slice{Name: name, Origin: name, Rows: n, TotalRows: n})
		p.Blocks[block] = func(context.Context, ops.Step) error {
			rate, grad, velocity, out := lr.Float32s()[0], g.Float32s(), v.Float32s(), w.Float32s()
			for i := range out {
				velocity[i] = 0.5*velocity[i] + grad[i]
				out[i] -= rate * velocity[i]
			}
			return nil
		}
	}
	p.Service.Slices = append(p.Service.Slices, comm.Slice{Name: "lr", Origin: "lr", Rows: 1, TotalRows: 1})
	return p
}

// Vector returns a vector of zeros.
func Vector(n int64) *tensor.Tensor {
	t, err := tensor.New(tensor.Float32, n)
	if err != nil {
		panic(err) // only for a length that no test asks for
	}
	return t
}

// Filled returns a vector whose elements are all x.
func Filled(n int64, x float32) *tensor.Tensor {
	t := Vector(n)
	for i := range t.Float32s() {
		t.Float32s()[i] = x
	}
	return t
}
