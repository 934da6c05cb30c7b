package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
)

func TestLineIsFound(t *testing.T) {
	out := exampletest.Page(t, func(out string) error { return write(out, "") })
	local := executor.New()
	defer local.Close()
	exampletest.Train(t, local, out, 60, "loss")
	// The noise alone has a mean square of 1.
	if loss := exampletest.Mean(exampletest.Test(t, out, "loss")); loss > 4 {
		t.Errorf("mean square error on made-up test houses is %g", loss)
	}
}

func TestHousesOfBoston(t *testing.T) {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is not set: no table of houses")
	}
	out := t.TempDir()
	if err := write(out, filepath.Join(root, "housing", "housing.data")); err != nil {
		t.Fatal(err)
	}
	// Locally and on a cluster: 404 houses in batches of 20 are 21 steps a pass.
	local := executor.New()
	defer local.Close()
	for name, exe := range map[string]executor.Executor{"local": local, "cluster": exampletest.Cluster(t)} {
		losses := exampletest.Train(t, exe, out, 30, "loss")
		if len(losses) != 30*21 {
			t.Errorf("%s: %d steps, want %d", name, len(losses), 30*21)
		}
		if last := exampletest.Mean(losses[len(losses)-21:]); last > 60 {
			t.Errorf("%s: mean square error of the last pass is %g", name, last)
		}
	}
}

func TestLaw(t *testing.T) {
	out := t.TempDir()
	if err := write(out, ""); err != nil {
		t.Fatal(err)
	}
	exampletest.Obeys(t, out, "loss")
}
