package remote_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// describeTranspiled is a process that transpiles the program on its standard input and prints what comes out.
func describeTranspiled(ctx context.Context) error {
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	p, err := program.Decode(b, program.DefaultLimits())
	if err != nil {
		return err
	}
	text, err := transpiled(ctx, p)
	fmt.Print(text)
	return err
}

// transpiled describes the role programs and the placement of p on 5 servers by each method.
func transpiled(ctx context.Context, p *program.Program) (string, error) {
	text := ""
	for _, method := range []string{transpiler.RoundRobin, transpiler.HashName} {
		r, err := transpiler.Transpile(ctx, p, transpiler.Config{Trainers: 3, PServers: 5, MinBlockSize: 4, SplitMethod: method})
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("%s %+v\n", method, r.Placement)
		for _, named := range r.Programs() {
			b, err := named.Program.Encode()
			if err != nil {
				return "", err
			}
			text += fmt.Sprintf("%s %x\n", named.Name, sha256.Sum256(b))
		}
	}
	return text, nil
}

// Trap 11: what is placed where does not depend on the process that decides it.
func TestPlacementIsTheSameInEveryProcess(t *testing.T) {
	p := testkit.Fed(t, optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1)))).Program
	encoded, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if p, err = program.Decode(encoded, program.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	want, err := transpiled(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		child := exec.CommandContext(bounded(t), os.Args[0])
		child.Env = append(os.Environ(), behaviourEnv+"=transpile")
		child.Stdin = bytes.NewReader(encoded)
		got, err := child.Output()
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Fatalf("another process places\n%s\nwant\n%s", got, want)
		}
	}
}

// Trap 22: Fluid's golden table of slices, in rows, and accumulators that are cut as their parameters are.
func TestGoldenSlices(t *testing.T) {
	for _, c := range []struct {
		min  int64
		dims []int64
		rows []int64
	}{
		{1024, []int64{3, 5}, []int64{3}},
		{1024, []int64{28, 784}, []int64{3, 3, 3, 3, 3, 3, 3, 3, 3, 1}},
		{1024, []int64{8, 1020}, []int64{2, 2, 2, 2}},
		{1024, []int64{800, 10}, []int64{115, 115, 115, 115, 115, 115, 110}},
		{8192, []int64{28, 784}, []int64{14, 14}},
		{8192, []int64{8, 1020}, []int64{8}},
		{8192, []int64{800, 10}, []int64{800}},
	} {
		m := layers.NewModel()
		x := layers.Data(m, "x", layers.Dims(c.dims[0]))
		loss := layers.Mean(layers.FC(x, c.dims[1], layers.NoBias(), layers.Param(layers.ParamAttr{Name: "w"})))
		optimizer.Momentum(0.1, 0.9).Minimize(loss)
		r, err := transpiler.Transpile(t.Context(), testkit.Built(t, m, loss).Program, transpiler.Config{Trainers: 1, PServers: 10, MinBlockSize: c.min})
		if err != nil {
			t.Fatal(err)
		}
		var rows []int64
		for _, s := range r.Placement.Of("w") {
			rows = append(rows, s.Rows)
			if bytes := 2 * 4 * s.Rows * c.dims[1]; s.Bytes < bytes || s.Bytes > bytes+16 {
				t.Errorf("%v: %d rows of parameter and velocity take %d bytes, want %d", c.dims, s.Rows, s.Bytes, bytes)
			}
			v, ok := r.PServers[s.Server].Global().Var(velocity(s))
			if !ok || v.Dims[0] != s.Rows {
				t.Errorf("%v: velocity %v beside %d rows of %s", c.dims, v, s.Rows, s.Name)
			}
		}
		if fmt.Sprint(rows) != fmt.Sprint(c.rows) {
			t.Errorf("%v in blocks of %d: %v, want %v", c.dims, c.min, rows, c.rows)
		}
	}
}

// velocity is the accumulator that goes with a slice of "w".
func velocity(s transpiler.Slice) string {
	if s.Block == transpiler.Whole {
		return "w_velocity_0"
	}
	return fmt.Sprintf("w_velocity_0.block%d", s.Block)
}
