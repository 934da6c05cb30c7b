package main

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
)

// The discriminator must not win: then the generator learns nothing.
func TestBothPlayersLearn(t *testing.T) {
	local := executor.New(executor.WithWorkers(2))
	defer local.Close()
	var first, last, discriminated float64
	const steps = 600
	err := train(t.Context(), local, steps, 32, func(step int, discriminator, generator float64) {
		switch {
		case step == 10:
			first = generator
		case step >= steps-50:
			last, discriminated = last+generator/50, discriminated+discriminator/50
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("generator %g at first, %g at last, discriminator %g", first, last, discriminated)
	if last > 4 || discriminated < 0.35 || discriminated > 1.5 {
		t.Errorf("the losses are %g of the generator and %g of the discriminator", last, discriminated)
	}
}

// The programs take turns on a cluster, too, and come to the losses of the reference.
func TestTurnsOnACluster(t *testing.T) {
	discriminator, _, err := players()
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := reference.New(discriminator.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Close()
	losses := func(exe executor.Executor) (all []float64) {
		if err := train(t.Context(), exe, 3, 16, func(_ int, d, g float64) { all = append(all, d, g) }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	want, got := losses(oracle), losses(exampletest.Cluster(t))
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("losses %v, want %v", got, want)
		}
	}
}

func TestRun(t *testing.T) {
	out, said := filepath.Join(t.TempDir(), "new"), &bytes.Buffer{}
	if err := run(context.Background(), out, "", 3, said); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(out, "generated.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if picture, err := png.Decode(f); err != nil || picture.Bounds().Dx() != side*28 {
		t.Errorf("%v", err)
	}
	if !strings.Contains(said.String(), "step    2  loss of the discriminator") {
		t.Errorf("%s", said)
	}
}
