package pserver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
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
func rowsAsked(t *testing.T, s *pstest.Server, id *rpc.Identity, name string, rows ...uint32) ([]float32, error) {
	t.Helper()
	stream, err := s.Client.GetRows(t.Context(), &rpc.RowsRequest{Id: id, Name: name, Rows: rows})
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
	return got.Float32s(), nil
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
		got, err := rowsAsked(t, s, a.ID(1), "w0", 3, 0, 3)
		if err != nil || !slices.Equal(got, slices.Repeat([]float32{-5}, 9)) {
			t.Errorf("sync %v: %v, %v", sync, got, err)
		}
		if got, err := rowsAsked(t, s, a.ID(1), "w0"); err != nil || len(got) != 0 {
			t.Errorf("no rows: %v, %v", got, err)
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
			if _, err := rowsAsked(t, s, a.ID(1), c.variable, c.rows...); !errors.Is(err, c.kind) {
				t.Errorf("sync %v, %s: %v", sync, name, err)
			}
		}
		stranger := a.ID(1)
		stranger.Job = "another"
		if _, err := rowsAsked(t, s, stranger, "w0", 0); !errors.Is(err, fault.Foreign) {
			t.Errorf("sync %v, another job: %v", sync, err)
		}
	}
}
