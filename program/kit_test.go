package program_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// models returns the real Fluid program files of the test data by their path below the models' folder.
func models(tb testing.TB) map[string][]byte {
	tb.Helper()
	data := os.Getenv("EDL_TESTDATA")
	if data == "" {
		tb.Skip("EDL_TESTDATA is unset: it names the folder of real Fluid models")
	}
	root := os.DirFS(filepath.Join(data, "models"))
	found := map[string][]byte{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !(entry.Name() == "__model__" || strings.HasSuffix(name, "_program") || strings.HasSuffix(name, ".bin")) {
			return err
		}
		found[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil || len(found) == 0 {
		tb.Fatalf("no models in %s: %v", data, err)
	}
	return found
}

// regression builds y = x w + b with its mean squared error, as the layers do, and a startup program.
func regression(tb testing.TB) *program.Program {
	tb.Helper()
	p := program.New()
	b := p.Global()
	add := func(v program.Var) {
		if v.Kind == 0 {
			v.Kind = program.LoDTensor
		}
		v.DType = tensor.Float32
		if _, err := b.AddVar(v); err != nil {
			tb.Fatal(err)
		}
	}
	add(program.Var{Name: "x", Dims: []int64{program.Unknown, 13}, NeedCheckFeed: true, StopGradient: true})
	add(program.Var{Name: "y", Dims: []int64{program.Unknown, 1}, NeedCheckFeed: true, StopGradient: true})
	add(program.Var{Name: "fc_0.w_0", Dims: []int64{13, 1}, Persistable: true, IsParameter: true})
	add(program.Var{Name: "fc_0.b_0", Dims: []int64{1}, Persistable: true, IsParameter: true})
	for _, name := range []string{"fc_0.tmp_0", "fc_0.tmp_1", "cost", "cost_squared"} {
		add(program.Var{Name: name, Dims: []int64{program.Unknown, 1}})
	}
	add(program.Var{Name: "loss", Dims: []int64{1}})
	op := func(opType, out string, in map[string][]string, attrs map[string]program.Attr) {
		o := b.Append(&program.Op{Type: opType, Inputs: in, Outputs: map[string][]string{"Out": {out}}, Attrs: attrs})
		o.SetSite("model/fit.go:12")
	}
	op("mul", "fc_0.tmp_0", map[string][]string{"X": {"x"}, "Y": {"fc_0.w_0"}},
		map[string]program.Attr{"x_num_col_dims": int32(1), "y_num_col_dims": int32(1)})
	op("elementwise_add", "fc_0.tmp_1", map[string][]string{"X": {"fc_0.tmp_0"}, "Y": {"fc_0.b_0"}}, map[string]program.Attr{"axis": int32(1)})
	op("elementwise_sub", "cost", map[string][]string{"X": {"fc_0.tmp_1"}, "Y": {"y"}}, nil)
	op("square", "cost_squared", map[string][]string{"X": {"cost"}}, nil)
	op("mean", "loss", map[string][]string{"X": {"cost_squared"}}, nil)

	s := p.Startup.Global()
	for _, name := range []string{"fc_0.w_0", "fc_0.b_0"} {
		v, _ := b.Var(name)
		s.EnsureVar(v.Copy(""))
		s.Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {name}},
			Attrs: map[string]program.Attr{"shape": v.Dims, "value": float32(0.5), "dtype": int32(5)}})
	}
	return p
}

func encode(tb testing.TB, p *program.Program) []byte {
	tb.Helper()
	data, err := p.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func decode(tb testing.TB, data []byte) *program.Program {
	tb.Helper()
	p, err := program.Decode(data, program.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// requireFault demands an error of a kind whose message holds all the words.
func requireFault(tb testing.TB, err error, kind fault.Kind, words ...string) {
	tb.Helper()
	if err == nil {
		tb.Fatalf("no error, want %v", kind)
	}
	if fault.KindOf(err) != kind {
		tb.Errorf("%v: kind %v, want %v", err, fault.KindOf(err), kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			tb.Errorf("%q does not say %q", err, word)
		}
	}
}
