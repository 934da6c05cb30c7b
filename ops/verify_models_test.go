package ops_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestRealFluidModelsVerify(t *testing.T) {
	data := os.Getenv("EDL_TESTDATA")
	if data == "" {
		t.Skip("EDL_TESTDATA is unset: it names the folder of real Fluid models")
	}
	stages := map[string]program.Stage{
		"__model__": program.StageInference, "main_program": program.StageLocal, "startup_program": program.StageStartup,
		"main_program.reconstructed.bin": program.StageLocal, "startup_program.bin": program.StageStartup,
	}
	verified := 0
	err := filepath.WalkDir(filepath.Join(data, "models"), func(path string, entry fs.DirEntry, err error) error {
		stage, isProgram := stages[entry.Name()]
		if err != nil || !isProgram {
			return err
		}
		verified++
		t.Run(strings.TrimPrefix(path, data), func(t *testing.T) {
			p, err := program.Load(path, program.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if err := ops.Verify(p, stage); err != nil {
				t.Error(err)
			}
		})
		return nil
	})
	if err != nil || verified < 10 {
		t.Errorf("%d models verified, %v", verified, err)
	}
}

// deep returns the file of a program of n ops: layers of mul, elementwise_add and relu.
func deep(b *testing.B, n int) []byte {
	p := program.New()
	g := p.Global()
	declare := func(name string, persistable bool, dims ...int64) string {
		g.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: dims, Persistable: persistable})
		return name
	}
	last := declare("x", false, program.Unknown, 64)
	add := func(opType, y string, axis string) {
		out := declare(p.UniqueName("fc.tmp"), false, program.Unknown, 64)
		op := g.Append(&program.Op{Type: opType, Inputs: map[string][]string{"X": {last}}, Outputs: map[string][]string{"Out": {out}}})
		if y != "" {
			op.Inputs["Y"] = []string{y}
		}
		if axis != "" {
			op.SetAttr(axis, int32(1))
		}
		op.SetLine(fmt.Sprintf("model/net.go:%d", len(g.Ops)))
		last = out
	}
	for len(g.Ops) < n {
		add("mul", declare(p.UniqueName("fc.w"), true, 64, 64), "x_num_col_dims")
		add("elementwise_add", declare(p.UniqueName("fc.b"), true, 64), "axis")
		add("relu", "", "")
	}
	data, err := p.Encode()
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// A listener does this with every program that arrives.
func BenchmarkDecodeAndVerify1000Ops(b *testing.B) {
	data := deep(b, 1000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		p, err := program.Decode(data, program.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		if err := ops.Verify(p, program.StageLocal); err != nil {
			b.Fatal(err)
		}
	}
}
