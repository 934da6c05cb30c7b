package draw_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/program/draw"
	"github.com/edl-go/edl/tensor"
)

// texts parses an SVG and returns the text of its text elements and its other elements' names.
func texts(t *testing.T, svg []byte) (shown, elements []string) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	inText := false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return shown, elements
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
			elements = append(elements, token.Name.Local)
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				shown = append(shown, string(token))
			}
		}
	}
}

// chain returns a program in which each op reads the variable before its own and writes that.
func chain(names ...string) *program.Program {
	p := program.New()
	for i, name := range names {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: i == 0})
		if i > 0 {
			p.Global().Append(&program.Op{Type: "relu", Inputs: map[string][]string{"X": {names[i-1]}}, Outputs: map[string][]string{"Out": {name}}})
		}
	}
	return p
}

func TestPictureShowsOpsVariablesAndBlocks(t *testing.T) {
	p := chain("x", "y", "x")
	body := p.NewBlock(p.Global())
	body.Append(&program.Op{Type: "increment", Inputs: map[string][]string{"X": {"y"}}, Outputs: map[string][]string{"Out": {"y"}}})
	p.Global().Append(&program.Op{Type: "while", Attrs: map[string]program.Attr{"sub_block": program.BlockIndex(1)}})
	svg, err := draw.SVG(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	shown, _ := texts(t, svg)
	slices.Sort(shown)
	want := []string{"block 0", "block 1", "increment", "relu", "relu", "while", "x", "x", "y", "y", "y"}
	if !slices.Equal(shown, want) {
		t.Errorf("the picture shows %q, want %q", shown, want)
	}
	if !bytes.Contains(svg, []byte("stroke-dasharray")) {
		t.Error("no dashed edge leads to the block of while")
	}
	again, err := draw.SVG(context.Background(), p)
	if err != nil || !bytes.Equal(svg, again) {
		t.Errorf("drawing twice gives two pictures, %v", err)
	}
}

func TestHostileNamesStayText(t *testing.T) {
	hostile := []string{`"; touch x <script>alert(1)</script>`, `<b>bold</b>`, `a\N\nb\l`, "nul\x00newline\n", "&amp;", `x"]; node [label="`,
		strings.Repeat("long", 1000), "\xff", "\u202eright to left", "]]>"}
	svg, err := draw.SVG(context.Background(), chain(hostile...))
	if err != nil {
		t.Fatal(err)
	}
	shown, elements := texts(t, svg)
	for _, name := range []string{hostile[0], hostile[1], hostile[4], hostile[5], `a\\N\\nb\\l`, `nul\x00newline\n`, `\xff`,
		`\u202eright to left`, "]]>"} {
		if !slices.Contains(shown, name) {
			t.Errorf("%q is not shown; the texts are %q", name, shown)
		}
	}
	for _, element := range elements {
		if !slices.Contains([]string{"svg", "g", "title", "polygon", "ellipse", "path", "text", "a"}, element) {
			t.Errorf("the picture holds an element %s", element)
		}
	}
	for _, text := range shown {
		if len(text) > 300 {
			t.Errorf("a text of %d bytes", len(text))
		}
	}
}

func TestPicturesHaveALimitAndCanBeCanceled(t *testing.T) {
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	if _, err := draw.SVG(context.Background(), chain(names...)); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("a picture of 4000 nodes: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := draw.SVG(ctx, chain("x", "y")); fault.KindOf(err) != fault.Canceled {
		t.Errorf("drawing after cancel: %v", err)
	}
}

func BenchmarkSVG(b *testing.B) {
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprint("variable_", i)
	}
	p := chain(names...)
	for b.Loop() {
		if _, err := draw.SVG(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	}
}
