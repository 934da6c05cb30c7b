// Package draw makes pictures of programs.
//
// It stands apart from package program because the layout engine, Graphviz compiled to WebAssembly, is large: only what draws
// links it. No process is started and no text of Graphviz's language is made: nodes are numbered, and names from the
// program are labels, escaped for the engine and by it for SVG.
package draw

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/goccy/go-graphviz"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/program/draw/internal/cachedir"
)

// The engine, which this package imports, is initialized by now.
func init() { cachedir.Restore() }

// maxNodes bounds a picture; layout takes time that grows with the square, and nobody can read more.
const maxNodes = 3000

// engine serializes the use of Graphviz, whose state is shared by the whole process.
var engine sync.Mutex

// SVG draws the program's blocks, each in a frame of its own: ops as boxes, colored by role, and variables as ellipses, parameters
// filled. A dashed edge leads from an op to the block that it owns. Each block shows a variable once per value: an op that writes a
// variable anew starts another ellipse, so the picture reads from top to bottom. The startup program is not in it; draw p.Startup for that.
// A program of more than 3000 ops and values is refused with fault.TooLarge. It returns early when ctx ends before the layout begins.
func SVG(ctx context.Context, p *program.Program) ([]byte, error) {
	d := plan(p)
	if len(d.nodes) > maxNodes {
		return nil, &fault.Fault{Kind: fault.TooLarge, Got: fmt.Sprintf("a picture of %d nodes", len(d.nodes)), Want: fmt.Sprintf("at most %d", maxNodes), Hint: "prune the program to a target first"}
	}
	engine.Lock()
	defer engine.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap(fault.Canceled, "picture", err)
	}
	svg, err := d.render(ctx)
	return svg, fault.Wrap(fault.Internal, "picture", err)
}

func (d *drawing) render(ctx context.Context) (svg []byte, err error) {
	g, err := graphviz.New(ctx)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	graph, err := g.Graph()
	if err != nil {
		return nil, err
	}
	defer graph.Close()
	frames := make([]*graphviz.Graph, d.blocks)
	for i := range frames {
		if frames[i], err = graph.CreateSubGraphByName(fmt.Sprintf("cluster_%d", i)); err != nil {
			return nil, err
		}
		frames[i].SetLabel(fmt.Sprintf("block %d", i))
	}
	nodes := make([]*graphviz.Node, len(d.nodes))
	for i, n := range d.nodes {
		if nodes[i], err = frames[n.block].CreateNodeByName(fmt.Sprintf("n%d", i)); err != nil {
			return nil, err
		}
		nodes[i].SetLabel(label(n.text)).SetTooltip(label(n.tip)).SetFillColor(n.color).SetStyle(graphviz.FilledNodeStyle).SetFontName("Helvetica").SetFontSize(11)
		if n.op {
			nodes[i].SetShape(graphviz.BoxShape)
		}
	}
	for i, e := range d.edges {
		edge, err := graph.CreateEdgeByName(fmt.Sprintf("e%d", i), nodes[e.from], nodes[e.to])
		if err != nil {
			return nil, err
		}
		if e.dashed {
			edge.SetStyle(graphviz.DashedEdgeStyle)
		}
	}
	var out bytes.Buffer
	if err := g.Render(ctx, graph, graphviz.SVG, &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
