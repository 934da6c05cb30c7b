package program_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func text(t *testing.T, p *program.Program, options program.TextOptions) string {
	t.Helper()
	var b strings.Builder
	if err := p.Text(&b, options); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTextShowsWhatMatters(t *testing.T) {
	p := nested(t)
	p.Startup = nil
	op := p.Blocks[3].Ops[0]
	for name, value := range map[string]program.Attr{"float": float32(0.1), "inf": math.Inf(1), "list": make([]int64, 12),
		"text": "say \"hi\"\x1b[31m", "block": program.BlockIndex(1), "names": []string{"a", "b"}} {
		op.SetAttr(name, value)
	}
	op.IsTarget = true
	op.SetLine("model/net.go:7")
	op.Inputs["Y"] = []string{"a b", program.Empty}
	p.Blocks[3].EnsureVar(program.Var{Name: "reader", Kind: program.Reader, Persistable: true,
		Fields: []program.Var{{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{-1, 1}, LoDLevel: 1}}})
	hash, err := p.Hash()
	if err != nil {
		t.Fatal(err)
	}
	want := `program ` + hash.Short() + `, version 0
block 0
  i      float32[1]
  other  float32[1]
  sum    float32[1]
    0  Out=i = fill(X=i)
    1  Out=i = while(X=i) {sub_block=block 2}
    2  Out=other = while_grad(X=i) {op_role=1, sub_block=block 1}
block 1, parent 0, gradient of 2
block 2, parent 0
  local  float32[1]
    0  Out=local = scale(X=i)
    1  Out=local = cond(X=local) {blocks=[block 3, block 3]}
block 3, parent 2
  reader  reader of (int64[-1 1] lod 1) persistable
    0  Out=sum = add(X=local, Y=["a b", @EMPTY@]) {block=block 1, float=0.1, inf=+Inf, list=[0, 0, 0, 0, 0, 0, 0, 0, ... 4 more], ` +
		`names=["a", "b"], text="say \"hi\"\x1b[31m"} target @model/net.go:7
`
	if got := text(t, p, program.TextOptions{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := text(t, p, program.TextOptions{Full: true}); !strings.Contains(got, "list=[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]") {
		t.Errorf("the full text lacks elements:\n%s", got)
	}
}

func TestTextIsTheSameAfterARoundTrip(t *testing.T) {
	p := training(t)
	want := text(t, p, program.TextOptions{})
	if got := text(t, decode(t, encode(t, p)), program.TextOptions{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(want, "\nstartup program ") || !strings.Contains(want, "float32[13 1] parameter\n") {
		t.Errorf("startup program or parameter is missing:\n%s", want)
	}
}

func TestTextOfHostileNamesIsPlainAndShort(t *testing.T) {
	p := program.New()
	long := strings.Repeat("x", 100_000)
	p.Global().EnsureVar(program.Var{Name: "\x1b]0;owned\x07", Kind: program.LoDTensor})
	p.Global().EnsureVar(program.Var{Name: long, Kind: 99})
	p.Global().Append(&program.Op{Type: "a\nb", Inputs: map[string][]string{"\u202e": {long}},
		Attrs: map[string]program.Attr{"go": 5, "long": long}}).SetLine("x\ny")
	got := text(t, p, program.TextOptions{})
	for _, r := range got {
		if r != '\n' && (r < ' ' || r > '~') {
			t.Fatalf("the text holds %q", r)
		}
	}
	if len(got) > 2000 || strings.Count(got, "\n") != 8 {
		t.Errorf("%d bytes in %d lines:\n%s", len(got), strings.Count(got, "\n"), got)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestTextReportsTheErrorOfItsWriter(t *testing.T) {
	if err := regression(t).Text(brokenWriter{}, program.TextOptions{}); err == nil || err.Error() != "disk full" {
		t.Errorf("got %v", err)
	}
}

func TestJSONForScripts(t *testing.T) {
	p := regression(t)
	p.Global().Ops[0].SetAttr("nan", float32(math.NaN()))
	p.Global().Ops[0].SetAttr("mixed", []float64{1, math.Inf(-1)})
	var b bytes.Buffer
	if err := p.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Hash   string
		Blocks []struct {
			Vars []struct {
				Name, Kind, DType string
				Dims              []int64
				IsParameter       bool `json:"is_parameter"`
			}
			Ops []struct {
				Type, Line string
				Inputs     map[string][]string
				Attrs      map[string]any
			}
		}
		Startup struct{ Blocks []any }
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	hash, err := p.Hash()
	if err != nil {
		t.Fatal(err)
	}
	op, v := got.Blocks[0].Ops[0], got.Blocks[0].Vars[2]
	if got.Hash != hash.String() || op.Type != "mul" || op.Line != "model/fit.go:12" || op.Inputs["Y"][0] != "fc_0.w_0" || len(got.Startup.Blocks) != 1 {
		t.Errorf("got %+v", got)
	}
	if op.Attrs["nan"] != "NaN" || op.Attrs["x_num_col_dims"] != 1.0 || op.Attrs["mixed"].([]any)[1] != "-Inf" || op.Attrs["op_callstack"] != nil {
		t.Errorf("attributes %v", op.Attrs)
	}
	if v.Name != "fc_0.b_0" || v.Kind != "lod_tensor" || v.DType != "float32" || !v.IsParameter {
		t.Errorf("variable %+v", v)
	}
}

func TestProtoTextReadsBack(t *testing.T) {
	p := nested(t)
	p.Startup = nil
	data, err := p.ProtoText()
	if err != nil {
		t.Fatal(err)
	}
	again, err := program.DecodeProtoText(data, program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(t, again), encode(t, p)) {
		t.Error("the text reads as another program")
	}
	if bytes.Contains(data, []byte(":  ")) {
		t.Error("the number of spaces is that of the build")
	}
	_, err = program.DecodeProtoText([]byte("blocks { nonsense: 1 }"), program.Limits{})
	requireFault(t, err, fault.Corrupt, "nonsense")
	_, err = program.DecodeProtoText(data, program.Limits{Bytes: 5})
	requireFault(t, err, fault.TooLarge)
	_, err = program.DecodeProtoText([]byte("blocks { idx: 0 parent_idx: -1 ops { } }"), program.Limits{})
	requireFault(t, err, fault.InvalidProgram, "without a type")
}

func TestRealTextDumpsReadAsTheirBinary(t *testing.T) {
	for name, binary := range models(t) {
		base := filepath.Join(os.Getenv("EDL_TESTDATA"), "models", strings.TrimSuffix(name, ".bin"))
		dump, err := os.ReadFile(base + ".pbtxt")
		if err != nil {
			continue
		}
		p, err := program.DecodeProtoText(dump, program.Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(encode(t, p), encode(t, decode(t, binary))) {
			t.Errorf("%s: text and binary are different programs", name)
		}
	}
}

// Text comes from outside, too: it gives a fault or a program that is written and read back alike.
func FuzzDecodeProtoText(f *testing.F) {
	for _, seed := range []string{
		"blocks { idx: 0 parent_idx: -1 }", "# a dump\nblocks: <idx: 0 parent_idx: -1>", "version { version: 0 }",
		`blocks { idx: 0 parent_idx: -1 vars { name: "x" type { type: LOD_TENSOR lod_tensor { tensor { data_type: FP32 dims: -1 } } } } }`,
		`blocks { idx: 0 parent_idx: -1 ops { type: "relu" attrs { name: "a" type: INT i: 3 } } }`, "blocks {{{{",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := program.DecodeProtoText(data, program.Limits{Bytes: 1 << 16})
		if err != nil {
			if fault.KindOf(err) == fault.Internal {
				t.Fatalf("a text led to %v", err)
			}
			return
		}
		text, err := p.ProtoText()
		if err != nil {
			t.Fatalf("a program that was read cannot be written: %v", err)
		}
		if !program.IsText(text) {
			t.Fatalf("%q is not known for a program", text)
		}
		if _, err := program.DecodeProtoText(text, program.Limits{}); err != nil {
			t.Fatalf("%q cannot be read back: %v", text, err)
		}
	})
}
