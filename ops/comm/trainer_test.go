package comm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestDestinationFaults(t *testing.T) {
	two := []string{"pserver:0", "pserver:1"}
	for name, c := range map[string]struct {
		attrs attrs
		kind  fault.Kind
	}{
		"no servers":   {attrs{}, fault.InvalidProgram},
		"one server":   {attrs{"epmap": []string{"pserver:0"}}, fault.InvalidProgram},
		"real address": {attrs{"epmap": []string{"127.0.0.1:6174", "pserver:0"}}, fault.InvalidProgram},
		"one name":     {attrs{"epmap": two, "send_varnames": []string{"a"}, "recv_varnames": []string{"a"}}, fault.InvalidProgram},
		"empty name":   {attrs{"epmap": two, "send_varnames": []string{"a", ""}, "recv_varnames": []string{"a", ""}}, fault.InvalidProgram},
		"name without a variable": {attrs{"epmap": two, "send_varnames": []string{"a", program.Empty}, "recv_varnames": []string{"a", program.Empty}},
			fault.InvalidProgram},
		"names meet": {attrs{"epmap": []string{"pserver:0", "pserver:0"}, "send_varnames": []string{"a", "a"},
			"recv_varnames": []string{"a", "a"}}, fault.InvalidProgram},
		"servers as ints": {attrs{"epmap": []int32{0, 1}}, fault.TypeMismatch},
	} {
		for _, op := range []*program.Op{sendOp(c.attrs), recvOp(c.attrs)} {
			if _, err := infer(op, 3); !errors.Is(err, c.kind) {
				t.Errorf("%s with %s infers: %v, want %v", op.Type, name, err, c.kind)
			}
			both := map[string][]*tensor.Tensor{"X": {vector(t, 1), vector(t, 2)}, "Out": {vector(t, 1), vector(t, 2)}}
			if _, err := bind(op, &ops.Env{Comm: &recorder{}}, both, both); err == nil {
				t.Errorf("%s with %s binds", op.Type, name)
			}
		}
	}
	for _, merge := range []program.Attr{int32(0), int32(4), int64(-1), "mean"} {
		if _, err := infer(sendOp(attrs{"epmap": two, "merge": merge}), 3); err == nil {
			t.Errorf("send takes merge = %v", merge)
		}
	}
	sparse := sendOp(attrs{"epmap": two})
	_, err := ops.Infer(sparse, func(string) (ops.Meta, bool) { return ops.Meta{Kind: program.SelectedRows}, true })
	if !errors.Is(err, fault.Unsupported) {
		t.Errorf("send of selected rows: %v", err)
	}
}

// TestOpsNeedACluster binds without an environment, and with one that offers nothing.
func TestOpsNeedACluster(t *testing.T) {
	two := attrs{"epmap": []string{"pserver:0", "pserver:1"}}
	both := map[string][]*tensor.Tensor{"X": {vector(t, 1), vector(t, 2)}, "Out": {vector(t, 1), vector(t, 2)}}
	for _, op := range []*program.Op{sendOp(two), recvOp(two), {Type: "send_barrier"}, {Type: "fetch_barrier"}, {Type: "exchange_partials"},
		serveOp(nil)} {
		for _, env := range []*ops.Env{nil, {}} {
			if _, err := bind(op, env, both, both); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "edl listen") {
				t.Errorf("%s binds without a cluster: %v", op.Type, err)
			}
		}
	}
	for _, op := range []*program.Op{sendOp(two), recvOp(two)} {
		missing := map[string][]*tensor.Tensor{"X": {vector(t, 1), nil}, "Out": {nil}}
		if _, err := bind(op, &ops.Env{Comm: &recorder{}}, missing, missing); !errors.Is(err, fault.InvalidProgram) {
			t.Errorf("%s binds an empty name: %v", op.Type, err)
		}
	}
}

func TestAddress(t *testing.T) {
	for _, i := range []int{0, 7, 10, 4095} {
		if got, err := comm.ParseAddress(comm.Address(i)); err != nil || got != i {
			t.Errorf("%s is parsed as %d, %v", comm.Address(i), got, err)
		}
	}
	for _, s := range []string{"", "0", "pserver:", "pserver:-1", "pserver:+1", "pserver:01", "pserver:1 ", "PSERVER:1",
		"pserver:99999999999999999999", "pserver:2147483648", "127.0.0.1:80", "pserver:0x1"} {
		if got, err := comm.ParseAddress(s); !errors.Is(err, fault.InvalidProgram) {
			t.Errorf("%q is parsed as %d, %v", s, got, err)
		}
	}
}

// A merge of devices has an output like each input, and a rule for each state.
func TestMergeDevices(t *testing.T) {
	op := &program.Op{Type: "merge_devices", Inputs: args{"X": {"g"}, "State": {"s"}}, Outputs: args{"Out": {"g.merged"}, "StateOut": {"s.merged"}},
		Attrs: attrs{"merge": int32(ops.MergeSum), "state_merges": []int32{int32(ops.MergeFirst)}}}
	s, err := infer(op, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Outs("StateOut")[0].String(); got != "float32[3 2]" {
		t.Errorf("state of %s", got)
	}
	tensors := map[string][]*tensor.Tensor{"X": {vector(t, 1)}, "State": {vector(t, 2)}}
	outs := map[string][]*tensor.Tensor{"Out": {vector(t, 0)}, "StateOut": {vector(t, 0)}}
	if _, err := bind(op, &ops.Env{Comm: &recorder{}}, tensors, outs); err == nil {
		t.Error("a connection without devices binds")
	}
	m := &merger{}
	kernel, err := bind(op, &ops.Env{Comm: m}, tensors, outs)
	if err == nil {
		err = kernel(t.Context())
	}
	if err != nil || len(m.all) != 2 || m.all[0].Name != "g" || m.all[0].Merge != ops.MergeSum || m.all[0].State || m.all[1].Name != "s" ||
		m.all[1].Merge != ops.MergeFirst || !m.all[1].State {
		t.Errorf("%+v, %v", m.all, err)
	}
	for name, change := range map[string]func(*program.Op){
		"no rule":        func(op *program.Op) { delete(op.Attrs, "state_merges") },
		"an odd rule":    func(op *program.Op) { op.Attrs["state_merges"] = []int32{9} },
		"no output":      func(op *program.Op) { op.Outputs = args{"StateOut": {"s.merged"}} },
		"an odd merge":   func(op *program.Op) { op.Attrs["merge"] = int32(0) },
		"too many rules": func(op *program.Op) { op.Attrs["state_merges"] = []int32{1, 1} },
	} {
		wrong := op.Clone()
		change(wrong)
		if _, err := infer(wrong, 3, 2); err == nil {
			t.Errorf("%s: infers", name)
		}
	}
}

// merger is a recorder with devices.
type merger struct {
	recorder
	all []ops.DeviceMessage
}

func (m *merger) MergeDevices(_ context.Context, _ *ops.Step, all []ops.DeviceMessage) error {
	m.all = all
	return nil
}
