package program_test

import (
	"errors"
	"math"
	"strings"
	"testing"

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
