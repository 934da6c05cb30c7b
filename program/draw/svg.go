// Package draw makes pictures of programs.
//
// The layout follows the order of a program: values are above the ops that read them, and ops above the values that they write. No other process
// takes part. Names of a program appear only as escaped labels.
//
// Files: plan.go (nodes and edges), layout.go (rows and places), svg.go.
package draw

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// maxNodes and maxSlots bound a picture; nobody can read more.
const (
	maxNodes = 3000
	maxSlots = 500_000 // nodes, and rows that lines pass through
)

// SVG draws the blocks of the program, each in its own frame. Ops are boxes with the color of their role. Variables are ellipses, and parameters
// are filled. A dashed edge leads from an op to the block that it owns. A block shows a variable once per value: an op that writes a variable again
// starts another ellipse, so the picture reads from top to bottom. The picture leaves out the startup program; draw p.Startup for it.
//
// The same program gives the same bytes. SVG refuses a program with more than 3000 ops and values, or with too many lines between them, with
// fault.TooLarge. It returns early when ctx ends.
func SVG(ctx context.Context, p *program.Program) ([]byte, error) {
	d := plan(p)
	if len(d.nodes) > maxNodes {
		return nil, tooLarge(fmt.Sprintf("a picture of %d nodes", len(d.nodes)), fmt.Sprintf("at most %d", maxNodes))
	}
	frames := make([]*frame, d.blocks)
	left := maxSlots
	for block := range frames {
		f := d.layered(block, left)
		if f == nil {
			return nil, tooLarge("a picture of too many long lines", fmt.Sprintf("lines through at most %d rows in all", maxSlots))
		}
		if err := f.arrange(ctx); err != nil {
			return nil, fault.Wrap(fault.Canceled, "picture", err)
		}
		left -= len(f.slots)
		frames[block] = f
	}
	return d.write(frames), nil
}

func tooLarge(got, want string) error {
	return fault.E(fault.TooLarge, fault.Got(got), fault.Want(want), fault.Hint("prune the program to a target first"))
}

const (
	framePadding = 16
	frameTitle   = 20 // height of a frame's own label
	frameGap     = 24
)

// A box is the place of a frame in the picture.
type box struct{ x, y, width, height float64 }

// A page is an SVG under construction.
type page struct {
	bytes.Buffer
	drawing *drawing
	frames  []*frame
	boxes   []box
}

// write draws frames whose slots are placed.
func (d *drawing) write(frames []*frame) []byte {
	p := &page{drawing: d, frames: frames}
	width, height := p.shelve()
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f"`, width, height, width, height)
	fmt.Fprintln(p, ` font-family="Helvetica,Arial,sans-serif" font-size="11" text-anchor="middle">`)
	for block, f := range frames {
		p.frame(block)
		for i := range f.slots {
			p.links(block, &f.slots[i])
		}
		for i := range f.slots {
			if !f.slots[i].line {
				p.node(block, &f.slots[i])
			}
		}
	}
	for _, e := range d.edges {
		if e.dashed {
			p.dashed(e)
		}
	}
	p.WriteString("</svg>\n")
	return p.Bytes()
}

// shelve moves each frame to the origin and places the frames row by row in about a square. It returns the size of the picture.
func (p *page) shelve() (width, height float64) {
	area, limit := 0.0, 0.0
	for _, f := range p.frames {
		low, high := 0.0, 0.0
		for i := range f.slots {
			s := &f.slots[i]
			low, high = min(low, s.x-s.width/2), max(high, s.x+s.width/2)
		}
		for i := range f.slots {
			f.slots[i].x += framePadding - low
		}
		b := box{width: high - low + 2*framePadding, height: frameTitle + rowPitch*float64(len(f.rows)) + framePadding}
		area, limit = area+b.width*b.height, max(limit, b.width)
		p.boxes = append(p.boxes, b)
	}
	limit = max(limit, math.Sqrt(area))
	x, y, next := float64(frameGap), float64(frameGap), float64(frameGap)
	for i := range p.boxes {
		b := &p.boxes[i]
		if x > frameGap && x+b.width > limit+frameGap {
			x, y = frameGap, next
		}
		b.x, b.y = x, y
		x, next = x+b.width+frameGap, max(next, y+b.height+frameGap)
		width = max(width, x)
	}
	return width, next
}

// top is the y of a slot from the top of the picture.
func (p *page) top(block, row int) float64 {
	return p.boxes[block].y + frameTitle + framePadding + rowPitch*float64(row)
}

func (p *page) text(x, y float64, s string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f">`, x, y)
	p.escape(s)
	p.WriteString("</text>\n")
}

func (p *page) escape(s string) { _ = xml.EscapeText(p, []byte(s)) } // a bytes.Buffer takes everything

func (p *page) frame(block int) {
	b := p.boxes[block]
	fmt.Fprintf(p, `<path d="M%.1f %.1fh%.1fv%.1fh%.1fz" fill="none" stroke="#999999"/>`+"\n", b.x, b.y, b.width, b.height, -b.width)
	p.text(b.x+b.width/2, b.y+frameTitle-5, fmt.Sprintf("block %d", block))
}

func (p *page) node(block int, s *slot) {
	n := p.drawing.nodes[s.node]
	x, y := p.boxes[block].x+s.x, p.top(block, s.row)
	p.WriteString("<g><title>")
	p.escape(label(n.tip))
	p.WriteString("</title>\n")
	if n.op {
		fmt.Fprintf(p, `<path d="M%.1f %.1fh%.1fv%dh%.1fz" fill="%s" stroke="black"/>`+"\n", x-s.width/2, y, s.width, rowHeight, -s.width, n.color)
	} else {
		fmt.Fprintf(p, `<ellipse cx="%.1f" cy="%.1f" rx="%.1f" ry="%d" fill="%s" stroke="black"/>`+"\n", x, y+rowHeight/2, s.width/2, rowHeight/2, n.color)
	}
	p.text(x, y+rowHeight/2+4, label(n.text))
	p.WriteString("</g>\n")
}

// links draws the links that lead down from a slot, with an arrow head at a node, and the line through the slot if it is one.
func (p *page) links(block int, s *slot) {
	if len(s.down) == 0 {
		return
	}
	left, top := p.boxes[block].x, p.top(block, s.row)
	x, y := left+s.x, top+rowHeight
	p.WriteString(`<path fill="none" stroke="#555555" d="`)
	if s.line {
		fmt.Fprintf(p, "M%.1f %.1fV%.1f", x, top, y)
	}
	for _, below := range s.down {
		p.curve(x, y, left+p.frames[block].slots[below].x, top+rowPitch)
	}
	p.WriteString(`"/>` + "\n")
	for _, below := range s.down {
		if target := &p.frames[block].slots[below]; !target.line {
			p.head(left+target.x, top+rowPitch)
		}
	}
}

// dashed draws the edge from an op to the first op of a block that it owns.
func (p *page) dashed(e edge) {
	from, to := p.drawing.nodes[e.from].block, p.drawing.nodes[e.to].block
	source, target := p.frames[from].slots[p.frames[from].place[e.from]], p.frames[to].slots[p.frames[to].place[e.to]]
	x, y := p.boxes[to].x+target.x, p.top(to, target.row)
	p.WriteString(`<path fill="none" stroke="#555555" stroke-dasharray="5,2" d="`)
	p.curve(p.boxes[from].x+source.x, p.top(from, source.row)+rowHeight, x, y)
	p.WriteString(`"/>` + "\n")
	p.head(x, y)
}

// curve draws a line from one point to another. At both ends it leads straight down.
func (p *page) curve(x, y, toX, toY float64) {
	half := math.Abs(toY-y) / 2
	fmt.Fprintf(p, "M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x, y, x, y+half, toX, toY-half, toX, toY)
}

func (p *page) head(x, y float64) {
	fmt.Fprintf(p, `<polygon points="%.1f,%.1f %.1f,%.1f %.1f,%.1f" fill="#555555"/>`+"\n", x, y, x-3, y-7, x+3, y-7)
}
