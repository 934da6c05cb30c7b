package program_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TestTablesOfPServersAreTensors reads tables that Fluid declares as rows with their numbers. One that has not all rows stays what it is, and so does everything else.
func TestTablesOfPServersAreTensors(t *testing.T) {
	build := func(kind program.VarKind, persistable bool, op string, dims ...int64) *program.Program {
		p := program.New()
		for _, b := range []*program.Block{p.Global(), p.Startup.Global()} {
			b.EnsureVar(program.Var{Name: "w", Kind: kind, DType: tensor.Float32, Dims: dims, Persistable: persistable})
		}
		b := p.Global()
		b.EnsureVar(program.Var{Name: "ids", Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{-1, 1}})
		b.EnsureVar(program.Var{Name: "out", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 4}})
		b.Append(&program.Op{Type: op, Inputs: map[string][]string{"W": {"w"}, "Ids": {"ids"}}, Outputs: map[string][]string{"Out": {"out"}}})
		return p
	}
	for _, c := range []struct {
		name        string
		persistable bool
		op          string
		dims        []int64
		becomes     program.VarKind
	}{
		{"a table", true, "lookup_table", []int64{9, 4}, program.LoDTensor},
		{"a table of later programs", true, "lookup_table_v2", []int64{9, 4}, program.LoDTensor},
		{"rows that nothing counts", true, "lookup_table", []int64{-1, 4}, program.SelectedRows},
		{"a gradient", false, "lookup_table", []int64{9, 4}, program.SelectedRows},
		{"what no lookup reads", true, "scale", []int64{9, 4}, program.SelectedRows},
	} {
		read := decode(t, encode(t, build(program.SelectedRows, c.persistable, c.op, c.dims...)))
		for _, b := range []*program.Block{read.Global(), read.Startup.Global()} {
			if w, _ := b.Var("w"); w.Kind != c.becomes || !slices.Equal(w.Dims, c.dims) {
				t.Errorf("%s is read as %v", c.name, w)
			}
		}
		if string(encode(t, read)) != string(encode(t, build(c.becomes, c.persistable, c.op, c.dims...))) {
			t.Errorf("%s is written otherwise than what it is read as", c.name)
		}
	}
}

// TestQueuesOfFluidAreFed reads a program that takes its batches from a queue of Python, made in its startup program or in itself.
func TestQueuesOfFluidAreFed(t *testing.T) {
	fields := []program.Var{{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 3}}}
	build := func(ops ...string) *program.Program {
		p := program.New()
		b := p.Global()
		for _, name := range []string{"queue", "py", "buffer", "files"} {
			v := program.Var{Name: name, Kind: program.Reader, Persistable: true, Fields: fields}
			if name == "queue" {
				v = program.Var{Name: name, Kind: program.Raw, Persistable: true}
			}
			b.EnsureVar(v)
		}
		b.EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 3}})
		b.EnsureVar(program.Var{Name: "y", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 3}})
		for _, op := range ops {
			w := strings.Fields(op)
			made := &program.Op{Type: w[0], Inputs: map[string][]string{}, Outputs: map[string][]string{"Out": {w[len(w)-1]}}}
			if len(w) > 3 {
				made.Inputs[w[1]] = []string{w[2]}
			}
			b.Append(made)
		}
		return p
	}
	for _, c := range []struct {
		name, ops string
		kept      string // the types of the ops that stay
		vars      string // the variables that stay
	}{
		{"the reader of a startup program", "read Reader buffer x; scale X x y", "scale", "files py queue x y"},
		{"a buffer around the reader of a startup program", "create_double_buffer_reader UnderlyingReader py buffer; read Reader buffer x; scale X x y", "scale", "files queue x y"},
		{"all in one", "create_py_reader blocking_queue queue py; create_double_buffer_reader UnderlyingReader py buffer; read Reader buffer x; scale X x y", "scale", "files x y"},
		{"a startup program", "create_py_reader blocking_queue queue py; create_double_buffer_reader UnderlyingReader py buffer", "", "files x y"},
		{"files", "create_recordio_file_reader files; create_double_buffer_reader UnderlyingReader files buffer; read Reader buffer x",
			"create_recordio_file_reader create_double_buffer_reader read", "buffer files py queue x y"},
	} {
		read := decode(t, encode(t, build(strings.Split(c.ops, "; ")...)))
		var types, vars []string
		for _, op := range read.Global().Ops {
			types = append(types, op.Type)
		}
		for _, name := range []string{"buffer", "files", "py", "queue", "x", "y"} {
			if _, ok := read.Global().Var(name); ok {
				vars = append(vars, name)
			}
		}
		if strings.Join(types, " ") != c.kept || strings.Join(vars, " ") != c.vars {
			t.Errorf("%s: ops %v and variables %v, want %s and %s", c.name, types, vars, c.kept, c.vars)
		}
		if x, _ := read.Global().Var("x"); x.NeedCheckFeed != strings.HasPrefix(c.kept, "scale") {
			t.Errorf("%s: x is fed: %v", c.name, x.NeedCheckFeed)
		}
	}
}
