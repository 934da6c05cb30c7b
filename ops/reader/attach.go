package reader

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// Attach makes a program that is fed read its batches, of so many records over all trainers, from a dataset. Fluid's programs are fed by Python, also those that take their
// batches from a queue (py_reader). The fields of a record are the variables that are fed, in the order of the feed ops, or of their declarations if there are none. A
// variable with sequences takes one sequence of each record. A mistake leaves p as it was.
func Attach(p *program.Program, dataset string, batch int32) error {
	b := p.Global()
	names := p.Feeds()
	if len(names) == 0 {
		names = fed(p)
	}
	if len(names) == 0 {
		return fault.E(fault.InvalidProgram, fault.Got("a program without a variable that is fed"), fault.Want("one that trains on data"))
	}
	var shapes, ranks, levels, dtypes []int32
	var samples, batches []program.Var
	for _, name := range names {
		v, _ := b.Var(name)
		if len(v.Dims) == 0 || v.Dims[0] != program.Unknown || slices.Contains(v.Dims[1:], program.Unknown) {
			return fault.E(fault.Unsupported, fault.Var(name), fault.Gotf("a fed variable of dims %v", v.Dims), fault.Want("an open number of rows, and known dims of a row"),
				fault.Hint("feed it with --feed"))
		}
		for _, d := range v.Dims[1:] {
			shapes = append(shapes, int32(d))
		}
		ranks, levels, dtypes = append(ranks, int32(len(v.Dims)-1)), append(levels, int32(v.LoDLevel)), append(dtypes, int32(v.DType))
		field := program.Var{Kind: program.LoDTensor, DType: v.DType, Dims: v.Dims, LoDLevel: v.LoDLevel}
		batches = append(batches, field)
		field.Dims = v.Dims[1:]
		samples = append(samples, field)
	}
	for _, name := range names {
		v, _ := b.Var(name)
		v.StopGradient = true
	}
	declare := func(fields []program.Var) string {
		name := p.UniqueName("reader")
		b.EnsureVar(program.Var{Name: name, Kind: program.Reader, Fields: fields})
		return name
	}
	files, joined := declare(samples), declare(batches)
	b.Ops = slices.DeleteFunc(b.Ops, func(op *program.Op) bool { return op.Type == "feed" })
	rest := b.Ops
	b.Ops = nil
	b.Append(&program.Op{Type: recordIOOp, Outputs: map[string][]string{"Out": {files}},
		Attrs: map[string]program.Attr{"dataset": dataset, "shape_concat": shapes, "ranks": ranks, "lod_levels": levels, "dtypes": dtypes}})
	b.Append(&program.Op{Type: batchOp, Inputs: map[string][]string{underlying: {files}}, Outputs: map[string][]string{"Out": {joined}}, Attrs: map[string]program.Attr{"batch_size": batch}})
	b.Append(&program.Op{Type: readOp, Inputs: map[string][]string{"Reader": {joined}}, Outputs: map[string][]string{"Out": names}})
	b.Ops = append(b.Ops, rest...)
	return nil
}

// fed lists the variables that ops read and none writes, and that do not outlive a run, in the order of their declarations.
func fed(p *program.Program) (names []string) {
	read, written := map[string]bool{}, map[string]bool{}
	for _, block := range p.Blocks {
		for _, op := range block.Ops {
			for _, name := range op.InputNames() {
				read[name] = true
			}
			for _, name := range op.OutputNames() {
				written[name] = true
			}
		}
	}
	for _, v := range p.Global().Vars() {
		if v.Kind == program.LoDTensor && !v.Persistable && read[v.Name] && !written[v.Name] {
			names = append(names, v.Name)
		}
	}
	return names
}
