package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// command runs a command of this module and returns what it prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, out, said.String())
	}
	return string(out)
}

// The program trains here and, with processes of the same binary, on a cluster, to the same bits as the reference.
func TestTrainsHereAndOnACluster(t *testing.T) {
	dir := t.TempDir()
	edl, program, data := filepath.Join(dir, "edl"), filepath.Join(dir, "program.pb"), "train="+filepath.Join(dir, "train-*")
	command(t, "go", "build", "-o", edl, "./cmd/edl")
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	for _, where := range [][]string{nil, {"--remote"}} {
		out := command(t, edl, append([]string{"run", program, "--data", data, "--passes", "10", "--output", "json"}, where...)...)
		var losses []float64
		for line := range strings.Lines(out) {
			var step struct{ Loss *float64 }
			if err := json.Unmarshal([]byte(line), &step); err != nil {
				t.Fatal(err)
			}
			if step.Loss != nil {
				losses = append(losses, *step.Loss)
			}
		}
		if n := len(losses); n < 2 || losses[n-1] > losses[0]/2 {
			t.Errorf("%v: losses %v", where, losses)
		}
	}
	if out := command(t, edl, "verify", program, "--data", data, "--steps", "3"); !strings.Contains(out, "bitwise equal") {
		t.Errorf("verify: %s", out)
	}
	if out := command(t, edl, "show", "ops", "snake"); !strings.Contains(out, "Liu et al.") {
		t.Errorf("show ops snake: %s", out)
	}
}

// A binary without the ops refuses the program, and names what it lacks.
func TestEDLWithoutTheOpsRefusesTheProgram(t *testing.T) {
	dir := t.TempDir()
	edl := filepath.Join(dir, "edl")
	command(t, "go", "build", "-o", edl, "github.com/edl-go/edl/cmd/edl")
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), edl, "run", filepath.Join(dir, "program.pb"), "--data", "train="+filepath.Join(dir, "train-*")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "snake") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestLawsOfSnake(t *testing.T) {
	x, err := tensor.FromSlice([]float64{-30, -2, -0.5, 0, 0.5, 3, 30})
	if err != nil {
		t.Fatal(err)
	}
	gradcheck.LawsOf(t, gradcheck.Case{Type: "snake", Inputs: map[string][]*tensor.Tensor{"X": {x}}})
}
