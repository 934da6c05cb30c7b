package transpiler_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// hashes returns the hash of every role program.
func hashes(t testing.TB, r *transpiler.Result) []string {
	var all []string
	for _, role := range r.Programs() {
		h, err := role.Program.Hash()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, role.Name+" "+h.String())
	}
	return all
}

func TestTranspileIsDeterministic(t *testing.T) {
	cfg := transpiler.Config{Trainers: 2, PServers: 3, MinBlockSize: 4}
	first := perceptron(t, optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1))))
	before, err := first.Hash()
	if err != nil {
		t.Fatal(err)
	}
	want := hashes(t, transpile(t, first, cfg))
	for range 20 {
		again := perceptron(t, optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1))))
		if got := hashes(t, transpile(t, again, cfg)); !slices.Equal(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	}
	if after, _ := first.Hash(); after != before {
		t.Error("transpiling changed the user's program")
	}
	cfg.Trainers = 64
	if got := hashes(t, transpile(t, first, cfg)); !slices.Equal(got, want) {
		t.Error("the number of trainers is compiled into a program")
	}
}

// Role programs travel as bytes, and who receives them verifies them again.
func TestRoleProgramsTravel(t *testing.T) {
	clipped := optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1)))
	for _, p := range []*program.Program{perceptron(t, clipped), batchNorm(t)} {
		for _, role := range transpile(t, p, transpiler.Config{PServers: 5, MinBlockSize: 4}).Programs() {
			data, err := role.Program.Encode()
			if err != nil {
				t.Fatal(err)
			}
			read, err := program.Decode(data, program.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			if err := ops.Verify(read, role.Stage); err != nil {
				t.Errorf("%s: %v", role.Name, err)
			}
			sent, _ := role.Program.Hash()
			if received, _ := read.Hash(); received != sent {
				t.Errorf("%s changed on the way", role.Name)
			}
		}
	}
}

func TestTranspileEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := transpiler.Transpile(ctx, fitLine(t, 3, 2, optimizer.SGD(0.1)), twoServers)
	if !errors.Is(err, fault.Canceled) {
		t.Errorf("got %v, want %v", err, fault.Canceled)
	}
}
