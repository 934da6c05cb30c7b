package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/edl-go/edl/layers"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/transpiler"
	"github.com/edl-go/edl/transpiler/report"
)

// transpiled is a model whose parameter has a hostile name.
func transpiled(t *testing.T, dump bool) *transpiler.Result {
	t.Helper()
	m := layers.NewModel()
	x, y := layers.Data(m, "x", layers.Dims(4)), layers.Data(m, "y", layers.Dims(1))
	h := layers.FC(x, 1, layers.Param(layers.ParamAttr{Name: `<script>alert("w")</script>`}))
	optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(h, y)))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	r, err := transpiler.Transpile(t.Context(), p, transpiler.Config{Trainers: 2, PServers: 2, Dump: dump})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWrite(t *testing.T) {
	var page bytes.Buffer
	if err := report.Write(&page, "fit <a> line", transpiled(t, true)); err != nil {
		t.Fatal(err)
	}
	html := page.String()
	for _, want := range []string{
		"<title>fit &lt;a&gt; line</title>",
		`data-v="fc_0.b_0"`,
		`data-v="&lt;script&gt;alert(&#34;w&#34;)&lt;/script&gt;"`,
		"<h2>trainer startup</h2>",
		"Joins update ops that must run on one server.",
		"<summary>pserver_1 ",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, forbidden := range []string{"<script>alert", "http://", "https://", "src=", "href="} {
		if strings.Contains(html, forbidden) {
			t.Errorf("the page holds %s", forbidden)
		}
	}
}

// The program of trainers loses the update and gains the exchange with servers; the forward pass is not marked.
func TestWriteMarksChanges(t *testing.T) {
	var page bytes.Buffer
	if err := report.Write(&page, "", transpiled(t, true)); err != nil {
		t.Fatal(err)
	}
	_, trainer, _ := strings.Cut(page.String(), "<h2>trainer</h2>")
	trainer, _, _ = strings.Cut(trainer, "</section>")
	for _, line := range strings.Split(trainer, "\n") {
		switch {
		case strings.Contains(line, " sgd(") && !strings.Contains(line, `class="lost"`),
			strings.Contains(line, " send_barrier(") && !strings.Contains(line, `class="added"`),
			strings.Contains(line, " mul_grad(") && strings.Contains(line, `class="lost"`):
			t.Errorf("wrongly marked: %s", line)
		}
	}
	if !strings.Contains(trainer, " sgd(") || !strings.Contains(trainer, " send_barrier(") {
		t.Error("the page does not show the programs before and after")
	}
}

func TestWriteNeedsDump(t *testing.T) {
	if err := report.Write(&bytes.Buffer{}, "", transpiled(t, false)); err == nil || !strings.Contains(err.Error(), "Config.Dump") {
		t.Errorf("got %v, want a fault that names Config.Dump", err)
	}
}
