package pserver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

const height, width = 5, 3 // of the table

// form is room for rows of the table, which hold some. Every element of row r is x*(r+1).
func form(t *testing.T, x float32, rows ...int32) *tensor.Tensor {
	t.Helper()
	v, err := tensor.New(tensor.Int32, compress.RowsDims(height, width)...)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := compress.RowsOf(v)
	numbers, values := f.Begin(len(rows))
	copy(numbers, rows)
	for i := range values {
		values[i] = x * float32(rows[i/width]+1)
	}
	return v
}

// inUse is a tensor with the elements of a form that travel.
func inUse(t *testing.T, v *tensor.Tensor) *tensor.Tensor {
	f, _ := compress.RowsOf(v)
	n, err := f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	used, err := tensor.FromSlice(slices.Clone(v.Int32s()[:n/4]))
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// tables is a program whose trainers send rows, and receive the rows that the last round has merged.
func tables(t *testing.T) *pstest.Program {
	merged, served := form(t, 0), form(t, 0)
	return &pstest.Program{
		Service: comm.Service{Sync: true, Optimize: []program.BlockIndex{1}, Rows: []string{"g", "w"},
			Grads: []comm.Contribution{{Name: "g", Block: 1, Merge: ops.MergeSum}}},
		Variables: map[string]*tensor.Tensor{"g": merged, "w": served},
		Blocks:    map[program.BlockIndex]func(context.Context, ops.Step) error{1: func(context.Context, ops.Step) error { return served.CopyFrom(merged) }},
	}
}

// Only rows in use travel, over every carrier, and each round brings its own.
func TestRowsOfRounds(t *testing.T) {
	for _, carrier := range []dataplane.Carrier{dataplane.TCP, dataplane.Unix, dataplane.Shared} {
		t.Run(carrier.String(), func(t *testing.T) {
			s := pstest.Start(t, pstest.WithData(t, pstest.Config(2)), tables(t))
			var lines []*pstest.Line
			for rank := range uint32(2) {
				l, err := (pstest.Trainer{Client: s.Client, Rank: rank, Carrier: carrier}).Open(t.Context(), 0, []string{"g"}, []string{"w"}, nil)
				if carrier == dataplane.Shared && errors.Is(err, fault.Unsupported) {
					t.Skip("this system has no memory that processes share by descriptors: ", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				defer l.Free()
				lines = append(lines, l)
			}
			for round, sent := range [][2][]int32{{{0, 3}, {3, 4}}, {{0, 1, 2, 3, 4}, {}}, {{}, {}}, {{2}, {2}}} {
				for rank, l := range lines {
					all(t, l.Data(uint64(round), []int{0}, inUse(t, form(t, float32(1+rank), sent[rank]...))), l.Answer(dataplane.Ack, uint64(round)),
						l.Declare(uint64(round), 1, 1))
				}
				want := map[int32]float32{}
				for rank, rows := range sent {
					for _, row := range rows {
						want[row] += float32(1+rank) * float32(row+1)
					}
				}
				for _, l := range lines {
					got, err := l.Params(uint64(round) + 1)
					if err != nil {
						t.Fatal(err)
					}
					arrived, err := tensor.New(tensor.Int32, compress.RowsDims(height, width)...)
					if err != nil {
						t.Fatal(err)
					}
					pstest.CopyBits(arrived, got[0])
					f, _ := compress.RowsOf(arrived)
					numbers, values, err := f.Used()
					if err != nil || len(numbers) != len(want) {
						t.Fatalf("round %d: rows %v, %v, want %v", round, numbers, err, want)
					}
					for i, row := range numbers {
						if x, ok := want[row]; !ok || values[i*width] != x || values[i*width+width-1] != x {
							t.Errorf("round %d, row %d: %v, want %v", round, row, values[i*width:][:width], x)
						}
					}
				}
			}
		})
	}
}

// Rows that cannot be are refused by name and change nothing, whichever way they come.
func TestHostileRows(t *testing.T) {
	for name, spoil := range map[string]func(all []int32){
		"more rows than the table":   func(all []int32) { all[0] = height + 1 },
		"fewer than none":            func(all []int32) { all[0] = -1 },
		"more than have come":        func(all []int32) { all[0] = 3 },
		"fewer than have come":       func(all []int32) { all[0] = 1 },
		"a row twice":                func(all []int32) { all[2] = all[1] },
		"a row behind the table":     func(all []int32) { all[2] = height },
		"a row in front of it":       func(all []int32) { all[1] = -1 },
		"rows in descending order":   func(all []int32) { all[1], all[2] = 2, 1 },
		"the largest count there is": func(all []int32) { all[0] = 1<<31 - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := pstest.Start(t, pstest.WithData(t, pstest.Config(1)), tables(t))
			trainer := pstest.Trainer{Client: s.Client}
			line, err := trainer.Open(t.Context(), 0, []string{"g"}, []string{"w"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			used := inUse(t, form(t, 1, 0, 2))
			spoil(used.Int32s())
			all(t, line.Data(0, []int{0}, used))
			if _, err := line.ReadHead(); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), `"g"`) {
				t.Errorf("over a data connection: %v", err)
			}
			line.Close()
			if _, err := trainer.Send(t.Context(), 0, "g", used); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), `"g"`) {
				t.Errorf("over a call: %v", err)
			}
			if _, err := trainer.Send(t.Context(), 0, "g", form(t, 1, 0, 2)); !errors.Is(err, fault.ShapeMismatch) {
				t.Errorf("with what is not in use: %v", err)
			}
			if line, err = trainer.Open(t.Context(), 0, []string{"g"}, []string{"w"}, nil); err != nil {
				t.Fatal(err)
			}
			all(t, line.Data(0, []int{0}, inUse(t, form(t, 2, 1))), line.Answer(dataplane.Ack, 0), line.Declare(0, 1, 1))
			if got, err := line.Params(1); err != nil || got[0].Len() == 0 {
				t.Errorf("the next contribution: %v, %v", got, err)
			}
		})
	}
}

// rowsAsked calls GetRows and returns what it answers.
func rowsAsked(t testing.TB, s *pstest.Server, m *rpc.RowsRequest) ([]int32, error) {
	t.Helper()
	stream, err := s.Client.GetRows(t.Context(), m)
	if err != nil {
		return nil, err
	}
	var got *tensor.Tensor
	_, err = wire.ReceiveVariable(stream, func(h *rpc.VariableChunk) (*tensor.Tensor, error) {
		got, err = tensor.New(tensor.DType(h.Dtype), h.Dims...)
		return got, err
	})
	if err != nil {
		return nil, wire.FromStatus("pserver", err)
	}
	return got.Int32s(), nil
}

// elementsOf takes an answer apart, whose parts have n elements each, and returns their elements as float32 and how they are stored.
func elementsOf(t testing.TB, words []int32, n ...int) (all [][]float32, stored []tensor.DType) {
	t.Helper()
	for _, n := range n {
		elements, left, err := wire.TakeRows(words, n)
		if err != nil {
			t.Fatal(err)
		}
		part := make([]float32, n)
		if elements.DType() == tensor.BFloat16 {
			kernel.FromBFloat16(part, tensor.Data[uint16](elements))
		} else {
			copy(part, elements.Float32s())
		}
		all, stored, words = append(all, part), append(stored, elements.DType()), left
	}
	if len(words) > 0 {
		t.Fatalf("%d words are behind the rows", len(words))
	}
	return all, stored
}

// A trainer asks for rows of a table as they are after the rounds before, in any order. It gets nothing that is not a row of a table.
func TestGetRows(t *testing.T) {
	for _, sync := range []bool{true, false} {
		p := pstest.SGD(0, sync, 1, 12)
		reshaped, err := p.Variables["w0"].Reshape(4, 3)
		if err != nil {
			t.Fatal(err)
		}
		p.Variables["w0"] = reshaped
		p.Service.Slices = []comm.Slice{{Name: "w0", Origin: "w", Rows: 4, TotalRows: 4}, {Name: "lr", Origin: "lr", Rows: 1, TotalRows: 1}}
		p.Variables["lr"] = pstest.Vector(1)
		s := pstest.Start(t, pstest.Config(1), p)
		a := pstest.Trainer{Client: s.Client}
		if _, err := a.Send(t.Context(), 0, "w0@GRAD", pstest.Filled(12, 5)); err != nil {
			t.Fatal(err)
		}
		if sync {
			all(t, a.Barrier(t.Context(), 0, 1, 1))
		} else if _, _, err := a.Get(t.Context(), 1, "w0@GRAD", 12); err != nil { // its own contribution is applied
			t.Fatal(err)
		}
		words, err := rowsAsked(t, s, &rpc.RowsRequest{Id: a.ID(1), Tables: []string{"w0"}, Rows: []uint32{3, 0, 3}, Counts: []uint32{3}})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := elementsOf(t, words, 9); !slices.Equal(got[0], slices.Repeat([]float32{-5}, 9)) {
			t.Errorf("sync %v: %v", sync, got)
		}
		for name, c := range map[string]struct {
			variable string
			rows     []uint32
			kind     fault.Kind
		}{
			"a row behind the table":        {"w0", []uint32{4}, fault.InvalidArgument},
			"the largest row":               {"w0", []uint32{1<<32 - 1}, fault.InvalidArgument},
			"a variable that is no table":   {"lr", []uint32{0}, fault.Foreign},
			"a gradient":                    {"w0@GRAD", []uint32{0}, fault.Foreign},
			"a variable that is not here":   {"gone", []uint32{0}, fault.Foreign},
			"more rows than one answer has": {"w0", make([]uint32, 1<<20+1), fault.TooLarge},
		} {
			m := &rpc.RowsRequest{Id: a.ID(1), Tables: []string{c.variable}, Rows: c.rows, Counts: []uint32{uint32(len(c.rows))}}
			if _, err := rowsAsked(t, s, m); !errors.Is(err, c.kind) {
				t.Errorf("sync %v, %s: %v", sync, name, err)
			}
		}
		stranger := a.ID(1)
		stranger.Job = "another"
		if _, err := rowsAsked(t, s, &rpc.RowsRequest{Id: stranger, Tables: []string{"w0"}, Rows: []uint32{0}, Counts: []uint32{1}}); !errors.Is(err, fault.Foreign) {
			t.Errorf("sync %v, another job: %v", sync, err)
		}
	}
}

// severalTables is a server with tables of all kinds, each with rows of three elements: "fixed" and "grows", and "fixed.half" and "grows.half", which are stored as
// bfloat16. All elements of row r of the fixed ones are r, up to 99. Those that grow have rows of the keys 0 to 9, where all elements of key k are 100+k.
func severalTables(t testing.TB) *pstest.Server {
	const rows, width = 8 * kernel.KeyRegions, 3
	p := pstest.SGD(0, true, 1, 4)
	variable := func(name, table string, dtype tensor.DType, dims ...int64) *tensor.Tensor {
		v, err := tensor.New(dtype, dims...)
		if err != nil {
			t.Fatal(err)
		}
		p.Variables[name] = v
		p.Service.Slices = append(p.Service.Slices, comm.Slice{Name: name, Origin: name, Rows: rows, TotalRows: rows, Table: table})
		return v
	}
	for _, stored := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		for _, name := range []string{"fixed", "grows"} {
			if stored == tensor.BFloat16 {
				name += ".half"
			}
			values := variable(name, name, stored, rows, width)
			numbers := make([]float32, rows*width)
			for i := range numbers {
				numbers[i] = float32(i / width % 100)
			}
			if strings.HasPrefix(name, "grows") {
				at := len(p.Service.Slices) - 1
				keys, index := variable(name+".keys", name, tensor.Int64, rows), variable(name+".index", name, tensor.Int32, rows)
				p.Service.Tables = append(p.Service.Tables, comm.GrownTable{Slice: p.Service.Slices[at], Keys: name + ".keys", Index: name + ".index"})
				writer := kernel.KeyWriter{KeyTable: kernel.KeyTable{Keys: keys.Int64s(), Index: index.Int32s(), Region: rows / kernel.KeyRegions}, Stamp: 1}
				for key := range int64(10) {
					row, _ := writer.Insert(kernel.MixKey(key))
					for i := range width {
						numbers[int(row)*width+i] = float32(100 + key)
					}
				}
			}
			if stored == tensor.BFloat16 {
				kernel.ToBFloat16(tensor.Data[uint16](values), numbers)
			} else {
				copy(values.Float32s(), numbers)
			}
		}
	}
	return pstest.Start(t, pstest.Config(1), p)
}

// keyed returns the mixed keys of numbers.
func keyed(numbers ...int64) (mixed []int64) {
	for _, n := range numbers {
		mixed = append(mixed, kernel.MixKey(n))
	}
	return mixed
}

// One request brings rows of many tables, of each kind, in the order in which it names them. A table may be there twice, and one may have no rows.
func TestGetRowsOfTables(t *testing.T) {
	s := severalTables(t)
	words, err := rowsAsked(t, s, &rpc.RowsRequest{Id: pstest.Trainer{}.ID(0), Tables: []string{"grows.half", "fixed.half", "fixed", "grows", "fixed.half", "fixed"},
		Counts: []uint32{1, 3, 0, 2, 1, 1}, Rows: []uint32{5, 0, 5, 7, 9}, Keys: keyed(3, 9, 1<<40)})
	if err != nil {
		t.Fatal(err)
	}
	got, stored := elementsOf(t, words, 3, 9, 0, 6, 3, 3)
	want := [][]float32{{103, 103, 103}, {5, 5, 5, 0, 0, 0, 5, 5, 5}, {}, {109, 109, 109, 0, 0, 0}, {7, 7, 7}, {9, 9, 9}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
	if half, single := tensor.BFloat16, tensor.Float32; !slices.Equal(stored, []tensor.DType{half, half, single, single, half, single}) {
		t.Errorf("stored as %v", stored)
	}
}

// hostileRows are requests for rows that are refused, with what they are refused as.
var hostileRows = map[string]struct {
	tables []string
	rows   []uint32
	keys   []int64
	counts []uint32
	kind   fault.Kind
}{
	"no counts":                        {tables: []string{"fixed"}, rows: []uint32{1}, kind: fault.Corrupt},
	"a count without a table":          {tables: []string{"fixed"}, rows: []uint32{1}, counts: []uint32{1, 0}, kind: fault.Corrupt},
	"rows of no table":                 {tables: []string{"fixed"}, rows: []uint32{1, 2}, counts: []uint32{1}, kind: fault.Corrupt},
	"keys of no table":                 {tables: []string{"fixed"}, rows: []uint32{1}, keys: keyed(1), counts: []uint32{1}, kind: fault.Corrupt},
	"a count of more rows":             {tables: []string{"fixed", "fixed"}, rows: []uint32{1, 2}, counts: []uint32{1, 2}, kind: fault.Corrupt},
	"the largest count":                {tables: []string{"fixed"}, rows: []uint32{1}, counts: []uint32{1<<32 - 1}, kind: fault.Corrupt},
	"counts whose sum is none":         {tables: []string{"fixed", "grows"}, rows: []uint32{1}, keys: keyed(1), counts: []uint32{1<<32 - 1, 2}, kind: fault.Corrupt},
	"rows of a table that grows":       {tables: []string{"grows"}, rows: []uint32{1}, counts: []uint32{1}, kind: fault.Corrupt},
	"keys of a table that does not":    {tables: []string{"fixed"}, keys: keyed(1), counts: []uint32{1}, kind: fault.Corrupt},
	"the variable of the keys":         {tables: []string{"grows.keys"}, rows: []uint32{1}, counts: []uint32{1}, kind: fault.Foreign},
	"one table that is not here":       {tables: []string{"fixed", "gone"}, rows: []uint32{1, 2}, counts: []uint32{1, 1}, kind: fault.Foreign},
	"a row behind one of the tables":   {tables: []string{"fixed", "fixed.half"}, rows: []uint32{511, 512}, counts: []uint32{1, 1}, kind: fault.InvalidArgument},
	"more tables than there may be":    {tables: make([]string, 1<<12+1), counts: make([]uint32, 1<<12+1), kind: fault.TooLarge},
	"more rows of all tables together": {tables: []string{"fixed", "grows"}, rows: make([]uint32, 1<<19), keys: make([]int64, 1<<19+1), counts: []uint32{1 << 19, 1<<19 + 1}, kind: fault.TooLarge},
}

// A request that is not for rows of tables is refused whole, before there is memory for an answer, and the next one is answered.
func TestHostileRequestsForRows(t *testing.T) {
	s := severalTables(t)
	for name, c := range hostileRows {
		m := &rpc.RowsRequest{Id: pstest.Trainer{}.ID(0), Tables: c.tables, Rows: c.rows, Keys: c.keys, Counts: c.counts}
		if _, err := rowsAsked(t, s, m); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
	words, err := rowsAsked(t, s, &rpc.RowsRequest{Id: pstest.Trainer{}.ID(0), Tables: []string{"fixed"}, Rows: []uint32{8}, Counts: []uint32{1}})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := elementsOf(t, words, 3); !slices.Equal(got[0], []float32{8, 8, 8}) {
		t.Errorf("after them: %v", got)
	}
}

// The bytes of an answer are bounded for all tables together.
func TestRowsOfTooManyBytes(t *testing.T) {
	const width = 1 << 20
	p := pstest.SGD(0, true, 1, 4)
	for _, name := range []string{"a", "b"} {
		v, err := tensor.New(tensor.Float32, 1, width)
		if err != nil {
			t.Fatal(err)
		}
		p.Variables[name] = v
		p.Service.Slices = append(p.Service.Slices, comm.Slice{Name: name, Origin: name, Rows: 1, TotalRows: 1})
	}
	s := pstest.Start(t, pstest.Config(1), p)
	ask := func(n uint32) error {
		_, err := rowsAsked(t, s, &rpc.RowsRequest{Id: pstest.Trainer{}.ID(0), Tables: []string{"a", "b"}, Rows: make([]uint32, 2*n), Counts: []uint32{n, n}})
		return err
	}
	if err := ask(7); err != nil {
		t.Errorf("56 MiB: %v", err)
	}
	if err := ask(9); !errors.Is(err, fault.TooLarge) {
		t.Errorf("72 MiB: %v", err)
	}
}

// Whatever a request says, the answer is an error, or has the rows that it asks for.
func FuzzGetRows(f *testing.F) {
	add := func(m *rpc.RowsRequest) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, c := range hostileRows {
		if len(c.rows)+len(c.keys)+len(c.tables) < 100 {
			add(&rpc.RowsRequest{Tables: c.tables, Rows: c.rows, Keys: c.keys, Counts: c.counts})
		}
	}
	add(&rpc.RowsRequest{Tables: []string{"grows.half", "fixed.half", "fixed", "grows"}, Counts: []uint32{1, 3, 0, 2}, Rows: []uint32{5, 0, 5}, Keys: keyed(3, 9, -1)})
	s := severalTables(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &rpc.RowsRequest{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		m.Id = pstest.Trainer{}.ID(0)
		words, err := rowsAsked(t, s, m)
		if err != nil {
			if kind := fault.KindOf(err); kind == fault.Internal || kind == fault.Unavailable {
				t.Errorf("a request is not refused but fails: %v", err)
			}
			return
		}
		var n []int
		for _, count := range m.Counts {
			n = append(n, int(count)*3)
		}
		elementsOf(t, words, n...)
	})
}
