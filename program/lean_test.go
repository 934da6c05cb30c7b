package program_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Fluid leaves out of gradients what their kernels do not read: it comes from the op whose gradient it is, as long as that is what the op has read.
func TestGradientsGetInputsOfTheirOps(t *testing.T) {
	for _, c := range []struct {
		opType, out string
		slots       []string // of the op that its gradient lacks
	}{
		{"temporal_shift", "Out", []string{"X"}},
		{"channel_shuffle", "Out", []string{"X"}},
		{"group_norm", "Y", []string{"X"}},
		{"affine_grid", "Output", []string{"Theta"}},
		{"sequence_unpad", "Out", []string{"Length"}},
		{"warpctc", "Loss", []string{"Label", "LabelLength"}},
		{"center_loss", "Loss", []string{"Label", "Centers", "CenterUpdateRate"}},
		{"sample_logits", "SampledLogits", []string{"Logits", "Labels"}},
		{"graph_send_recv", "Out", []string{"Out_size"}},
		{"graph_send_ue_recv", "Out", []string{"Out_size"}},
		{"fill_diagonal_tensor", "Out", []string{"Y"}},
		{"lod_reset", "Out", []string{"Y"}},
	} {
		for i, between := range []string{"", c.slots[0]} { // what another op writes before the gradient
			p, grad := program.New(), []string{"out@GRAD_0", "out@GRAD"}[i]
			for _, name := range append([]string{"out", grad, "kept", "end"}, c.slots...) {
				p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2}})
			}
			read := map[string][]string{}
			for _, slot := range c.slots {
				read[slot] = []string{slot}
			}
			p.Global().Append(&program.Op{Type: c.opType, Inputs: read, Outputs: map[string][]string{c.out: {"out"}}})
			if between != "" {
				p.Global().Append(&program.Op{Type: "tanh", Inputs: map[string][]string{"X": {"kept"}}, Outputs: map[string][]string{"Out": {between}}})
			}
			p.Global().Append(&program.Op{Type: c.opType + "_grad", Inputs: map[string][]string{c.out + "@GRAD": {grad}}, Outputs: map[string][]string{"End@GRAD": {"end"}}})
			list := decode(t, encode(t, p)).Global().Ops
			got := list[len(list)-1]
			for i, slot := range c.slots {
				want := []string{slot}
				if between != "" && i == 0 {
					want = nil
				}
				if !slices.Equal(got.Inputs[slot], want) {
					t.Errorf("%s, with %q written between: %s = %v, want %v", got.Type, between, slot, got.Inputs[slot], want)
				}
			}
		}
	}
}

// The gradient of eigvalsh reads the eigenvectors alone.
func TestGradientsGetOutputsOfTheirOps(t *testing.T) {
	p := program.New()
	for _, name := range []string{"x", "values", "vectors", "values@GRAD", "x@GRAD"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2}})
	}
	p.Global().Append(&program.Op{Type: "eigvalsh", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Eigenvalues": {"values"}, "Eigenvectors": {"vectors"}}})
	p.Global().Append(&program.Op{Type: "eigvalsh_grad", Inputs: map[string][]string{"Eigenvectors": {"vectors"}, "Eigenvalues@GRAD": {"values@GRAD"}}, Outputs: map[string][]string{"X@GRAD": {"x@GRAD"}}})
	if got := decode(t, encode(t, p)).Global().Ops[1]; got.Type != "eigh_grad" || got.In("Eigenvalues") != "values" {
		t.Errorf("got %v of %v", got.Type, got.Inputs)
	}
}

// Gradients that an op of Fluid computes, and other ops here.
func TestGradientsByOtherOps(t *testing.T) {
	for _, c := range []struct {
		opType  string
		in, out map[string][]string
		open    bool // the last extent is not known
		want    string
	}{
		{"stack_grad", map[string][]string{"Y@GRAD": {"a"}}, map[string][]string{"X@GRAD": {"b", program.Empty}}, false, "unstack"},
		{"stack_grad", map[string][]string{"Y@GRAD": {"a"}}, nil, false, "stack_grad"},
		{"unstack_grad", map[string][]string{"Y@GRAD": {"a", "b"}}, map[string][]string{"X@GRAD": {"c"}}, false, "stack"},
		{"tril_triu_grad", map[string][]string{"Out@GRAD": {"a"}}, map[string][]string{"X@GRAD": {"b"}}, false, "tril_triu"},
		{"top_k_grad", map[string][]string{"X": {"a"}, "Indices": {"b"}, "Out@GRAD": {"c"}}, map[string][]string{"X@GRAD": {"d"}}, false, "top_k_v2_grad"},
		{"top_k_grad", map[string][]string{"X": {"a"}, "Indices": {"b"}, "Out@GRAD": {"c"}}, map[string][]string{"X@GRAD": {"d"}}, true, "top_k_grad"},
		{"addmm_grad", map[string][]string{"X": {"a"}, "Y": {"b"}, "Out@GRAD": {"c"}}, map[string][]string{"X@GRAD": {"d"}, "Input@GRAD": {"e"}}, false, "scale matmul"},
		{"stright_throuth_estimator_grad", map[string][]string{"Out@GRAD": {"a"}}, map[string][]string{"X@GRAD": {"b"}}, false, "assign"},
	} {
		w := []int64{-1, 2}
		if c.open {
			w[1] = -1
		}
		if got := split(t, &program.Op{Type: c.opType, Inputs: c.in, Outputs: c.out}, w...); got != c.want {
			t.Errorf("%s is read as %s, want %s", c.opType, got, c.want)
		}
	}
}
