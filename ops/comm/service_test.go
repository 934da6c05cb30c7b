package comm_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func exchangeOp(outs ...string) *program.Op {
	return &program.Op{Type: "exchange_partials", Inputs: args{"X": {"norm@PARTIAL"}}, Outputs: args{"Out": outs}}
}

// serveOp is a pserver that holds two slices and one state, with the attributes of change instead of its own.
func serveOp(change attrs) *program.Op {
	a := attrs{
		"endpoint": "pserver:2", "pserver_id": int32(2),
		"prepare_blocks": []program.BlockIndex{1, 2}, "global_block": int32(3), "lr_decay_block_id": int32(4),
		"optimize_blocks": []program.BlockIndex{5, 6},
		"grad_names":      []string{"a:b@GRAD", "w@GRAD.block0"}, "grad_block_ids": []int32{6, 5}, "grad_merge": []int32{1, 2},
		"state_names": []string{"mean"}, "state_merge": []int32{1},
		"slice_names": []string{"w.block1", "mean"}, "slice_origins": []string{"w", "mean"},
		"slice_first_rows": []int64{500, 0}, "slice_rows": []int64{500, 7}, "slice_total_rows": []int64{1000, 7},
		"grad_to_block_id": []string{"a:b@GRAD:6", "w@GRAD.block0:5"},
	}
	maps.Copy(a, change)
	return &program.Op{Type: "listen_and_serv", Attrs: a}
}

func TestServiceOf(t *testing.T) {
	got, err := comm.ServiceOf(serveOp(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := comm.Service{
		Server: 2, Sync: true, Prepare: []program.BlockIndex{1, 2}, Global: 3, LRDecay: 4, Optimize: []program.BlockIndex{5, 6},
		Grads:  []comm.Contribution{{Name: "a:b@GRAD", Block: 6, Merge: ops.MergeMean}, {Name: "w@GRAD.block0", Block: 5, Merge: ops.MergeSum}},
		States: []comm.Contribution{{Name: "mean", Block: comm.NoBlock, Merge: ops.MergeMean}},
		Slices: []comm.Slice{{Name: "w.block1", Origin: "w", FirstRow: 500, Rows: 500, TotalRows: 1000},
			{Name: "mean", Origin: "mean", Rows: 7, TotalRows: 7}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// Contributions that are compressed merge into a variable of their own.
func TestServiceOfCompressedContributions(t *testing.T) {
	got, err := comm.ServiceOf(serveOp(attrs{"grad_into": []string{"b@GRAD", "w@GRAD.block0"}}))
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{got.Grads[0].Target(), got.Grads[1].Target(), got.States[0].Target()}
	if !slices.Equal(targets, []string{"b@GRAD", "w@GRAD.block0", "mean"}) || got.Grads[0].Name != "a:b@GRAD" {
		t.Errorf("%v of %+v", targets, got)
	}
}

func TestServiceDefaults(t *testing.T) {
	got, err := comm.ServiceOf(&program.Op{Type: "listen_and_serv",
		Attrs: attrs{"endpoint": "pserver:0", "pserver_id": int32(0), "optimize_blocks": []program.BlockIndex{}}})
	if err != nil {
		t.Fatal(err)
	}
	if !got.Sync || got.Global != comm.NoBlock || got.LRDecay != comm.NoBlock || len(got.Grads)+len(got.States)+len(got.Prepare) > 0 {
		t.Errorf("a pserver without parameters is %+v", got)
	}
	async, err := comm.ServiceOf(serveOp(attrs{"sync_mode": false, "prepare_blocks": []program.BlockIndex{}, "global_block": int32(-1)}))
	if err != nil || async.Sync {
		t.Errorf("sync_mode false is read as %+v, %v", async, err)
	}
}

func TestServiceFaults(t *testing.T) {
	list := func(b ...program.BlockIndex) []program.BlockIndex { return b }
	for name, c := range map[string]struct {
		change attrs
		says   string
	}{
		"real address":         {attrs{"endpoint": "10.0.0.1:6174"}, "pserver:0"},
		"other index":          {attrs{"pserver_id": int32(1)}, "pserver_id"},
		"block 0":              {attrs{"optimize_blocks": list(0, 5, 6)}, "block 0"},
		"negative block":       {attrs{"prepare_blocks": list(-1)}, "block -1"},
		"block twice":          {attrs{"optimize_blocks": list(5, 6, 5)}, "two stages"},
		"block of two stages":  {attrs{"global_block": int32(5)}, "two stages"},
		"one block for both":   {attrs{"lr_decay_block_id": int32(3)}, "two stages"},
		"no block":             {attrs{"lr_decay_block_id": int32(-2)}, "lr_decay_block_id"},
		"huge block":           {attrs{"global_block": int64(math.MaxInt64)}, "global_block"},
		"exchange while async": {attrs{"sync_mode": false}, "sync_mode"},
		"grad of no block":     {attrs{"grad_block_ids": []int32{6, 4}}, "optimize_blocks"},
		"grad block overflow":  {attrs{"grad_block_ids": []int64{6, 1<<32 + 5}}, "optimize_blocks"},
		"grads too short":      {attrs{"grad_names": []string{"w"}}, "lists of one length"},
		"merges too short":     {attrs{"grad_merge": []int32{1}}, "lists of one length"},
		"states too short":     {attrs{"state_merge": []int32{}}, "lists of one length"},
		"no merge":             {attrs{"grad_merge": []int32{0, 1}}, "mean"},
		"unknown merge":        {attrs{"state_merge": []int32{7}}, "mean"},
		"name twice":           {attrs{"state_names": []string{"w@GRAD.block0"}}, "each once"},
		"empty name":           {attrs{"grad_names": []string{"", "w"}}, "each once"},
		"no variable":          {attrs{"grad_names": []string{program.Empty, "w"}}, "each once"},
		"slices too short":     {attrs{"slice_rows": []int64{500}}, "lists of one length"},
		"slice twice":          {attrs{"slice_names": []string{"mean", "mean"}}, "each once"},
		"slice of nothing":     {attrs{"slice_origins": []string{"", "mean"}}, "each once"},
		"rows after the end":   {attrs{"slice_first_rows": []int64{501, 0}}, "rows"},
		"overflowing rows":     {attrs{"slice_first_rows": []int64{math.MaxInt64, 0}}, "rows"},
		"negative rows":        {attrs{"slice_rows": []int64{-1, 7}}, "rows"},
		"merged twice":         {attrs{"grad_into": []string{"g", "g"}}, "each once"},
		"merged into a state":  {attrs{"grad_into": []string{"g", "mean"}}, "each once"},
		"merged nowhere":       {attrs{"grad_into": []string{"g", ""}}, "one for each of grad_names"},
		"into too few":         {attrs{"grad_into": []string{"g"}}, "one for each of grad_names"},
		"tables too few":       {attrs{"slice_tables": []string{"w"}}, "each of slice_names"},
		"counts without table": {attrs{"table_counts": []string{"mean"}}, "table_counts"},
		"counts of other rows": {attrs{"table_names": []string{"w.block1"}, "table_keys": []string{"w.block1"}, "table_indexes": []string{"w.block1"},
			"table_seeds": []int64{1}, "table_ranges": []float32{0, 1}, "table_counts": []string{"mean"}}, "same rows"},
		"blocks as ints": {attrs{"optimize_blocks": []int32{5, 6}}, "optimize_blocks"},
	} {
		_, err := comm.ServiceOf(serveOp(c.change))
		var f *fault.Fault
		if !errors.As(err, &f) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want a fault that says %q", name, err, c.says)
		}
		if _, err := bind(serveOp(c.change), &ops.Env{Server: &fakeServer{}, Blocks: noBlocks{}}, nil, nil); err == nil {
			t.Errorf("%s binds", name)
		}
	}
	if _, err := comm.ServiceOf(&program.Op{Type: "send"}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a send is read as a service: %v", err)
	}
}

func TestServe(t *testing.T) {
	server := &fakeServer{}
	op := serveOp(nil)
	kernel, err := bind(op, &ops.Env{Server: server, Blocks: noBlocks{}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := kernel(t.Context()); !errors.Is(err, errWire) || server.op != op || server.blocks != (noBlocks{}) {
		t.Errorf("the server was called with %v, %v and returned %v", server.op, server.blocks, err)
	}
	if _, err := bind(op, &ops.Env{Server: server}, nil, nil); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("listen_and_serv binds without blocks: %v", err)
	}
}

func TestExchange(t *testing.T) {
	words := func(values ...int64) *tensor.Tensor { w, _ := tensor.FromSlice(values); return w }
	server := &fakeServer{}
	all := []*tensor.Tensor{words(0, 0), words(0, 0), words(0, 0)}
	op := exchangeOp("a", "b", "c")
	kernel, err := bind(op, &ops.Env{Server: server}, map[string][]*tensor.Tensor{"X": {words(3, 4)}}, map[string][]*tensor.Tensor{"Out": all})
	if err != nil {
		t.Fatal(err)
	}
	if err := kernel(t.Context()); err != nil || server.name != "norm@PARTIAL" || all[0].Int64s()[0] != 3 || all[2].Int64s()[1] != 400 {
		t.Errorf("exchanged %s: %v, %v", server.name, all, err)
	}
	if s, err := infer(op, 5); err != nil || s.Outs("Out")[2].String() != "float32[5]" {
		t.Errorf("inferred %v, %v", s, err)
	}
	for name, outs := range map[string][]*tensor.Tensor{"no variable": {nil, nil, nil}, "other dims": {words(1)}, "other type": {vector(t, 1, 2)}} {
		if _, err := bind(op, &ops.Env{Server: server}, map[string][]*tensor.Tensor{"X": {words(3, 4)}},
			map[string][]*tensor.Tensor{"Out": outs}); err == nil {
			t.Errorf("exchange into %s binds", name)
		}
	}
}
