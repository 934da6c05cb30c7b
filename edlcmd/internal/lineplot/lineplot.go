// Package lineplot draws curves over steps as one SVG file: a panel for each quantity, below each other. A plot takes bounded memory however long a run is.
package lineplot

import (
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
)

const (
	maxPoints = 1000 // of a curve: when there are more, neighbours become their mean
	maxPanels = 32   // further quantities are left out
)

// A Plot is panels in the order in which they were added. It is for one goroutine.
type Plot struct{ panels []*panel }

type panel struct {
	name   string
	curves []*curve
}

// A curve is the means of runs of stride values each. The last run may be shorter.
type curve struct {
	name   string
	points []point
	stride int
}

// A point is the sum of n values.
type point struct {
	x, y float64
	n    int
}

// Add adds a value to a curve of a panel. Steps come in order. A value that is not finite leaves a gap of one value.
func (p *Plot) Add(panelName, curveName string, step uint64, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	var to *panel
	for _, q := range p.panels {
		if q.name == panelName {
			to = q
		}
	}
	if to == nil {
		if len(p.panels) == maxPanels {
			return
		}
		to = &panel{name: panelName}
		p.panels = append(p.panels, to)
	}
	var c *curve
	for _, q := range to.curves {
		if q.name == curveName {
			c = q
		}
	}
	if c == nil {
		c = &curve{name: curveName, stride: 1}
		to.curves = append(to.curves, c)
	}
	c.add(float64(step), value)
}

func (c *curve) add(x, y float64) {
	if last := len(c.points) - 1; last >= 0 && c.points[last].n < c.stride {
		q := &c.points[last]
		q.x, q.y, q.n = q.x+x, q.y+y, q.n+1
		return
	}
	if len(c.points) == maxPoints {
		for i := range maxPoints / 2 {
			a, b := c.points[2*i], c.points[2*i+1]
			c.points[i] = point{a.x + b.x, a.y + b.y, a.n + b.n}
		}
		c.points, c.stride = c.points[:maxPoints/2], 2*c.stride
	}
	c.points = append(c.points, point{x, y, 1})
}

// Sizes in pixels.
const (
	width, height            = 720, 240 // of a panel
	left, right, top, bottom = 72, 16, 32, 36
)

// colors of the curves of a panel can be told apart with any kind of color vision.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7"}

// WriteFile draws the plot into a file, and replaces an older one as a whole.
func (p *Plot) WriteFile(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fault.File(fault.InvalidArgument, path, err)
	}
	_, err = f.WriteString(p.svg())
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fault.File(fault.Unavailable, path, err)
	}
	return nil
}

// svg is the text of the file.
func (p *Plot) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12" fill="#222">`+"\n", width, max(1, len(p.panels))*height)
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="#fff"/>`)
	for i, q := range p.panels {
		fmt.Fprintf(&b, `<g transform="translate(0 %d)">`+"\n", i*height)
		q.draw(&b)
		fmt.Fprintln(&b, "</g>")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (q *panel) draw(b *strings.Builder) {
	var xs, ys axis
	for _, c := range q.curves {
		for _, v := range c.points {
			xs.include(v.x / float64(v.n))
			ys.include(v.y / float64(v.n))
		}
	}
	xs.widen()
	ys.widen()
	x := func(v float64) float64 { return left + xs.part(v)*(width-left-right) }
	y := func(v float64) float64 { return height - bottom - ys.part(v)*(height-top-bottom) }
	fmt.Fprintf(b, `<text x="%d" y="20" font-weight="bold">%s</text>`+"\n", left, html.EscapeString(q.name))
	for _, v := range ys.ticks(5) {
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left, y(v), width-right, left-6, y(v)+4, number(v))
	}
	for _, v := range xs.ticks(8) {
		fmt.Fprintf(b, `<path d="M%.1f %dV%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(v), top, height-bottom, x(v), height-bottom+16, number(v))
	}
	for i, c := range q.curves {
		color := colors[i%len(colors)]
		var points []string
		for _, v := range c.points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(v.x/float64(v.n)), y(v.y/float64(v.n))))
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`+"\n", color, strings.Join(points, " "))
		if len(points) == 1 {
			at := strings.Split(points[0], ",")
			fmt.Fprintf(b, `<circle r="2.5" fill="%s" cx="%s" cy="%s"/>`+"\n", color, at[0], at[1])
		}
		fmt.Fprintf(b, `<text x="%d" y="20" text-anchor="end" fill="%s">%s</text>`+"\n", width-right-80*(len(q.curves)-1-i), color, html.EscapeString(c.name))
	}
}

// An axis is the range of the values that it includes.
type axis struct {
	from, to float64
	any      bool
}

func (a *axis) include(v float64) {
	if !a.any {
		a.from, a.to, a.any = v, v, true
	}
	a.from, a.to = min(a.from, v), max(a.to, v)
}

// widen gives a range of one value, and one too large for a difference, some width.
func (a *axis) widen() {
	if a.to-a.from > 0 && !math.IsInf(a.to-a.from, 0) {
		return
	}
	if a.from == a.to && math.Abs(a.from) < 1e300 {
		room := max(math.Abs(a.from)/10, 1e-300)
		if a.from == 0 {
			room = 1
		}
		a.from, a.to = a.from-room, a.to+room
		return
	}
	a.from, a.to = max(a.from, -8e307), min(a.to, 8e307)
	if a.from >= a.to {
		a.from, a.to = -8e307, 8e307
	}
}

// part is where a value lies in the range, from 0 to 1.
func (a *axis) part(v float64) float64 { return min(max((v-a.from)/(a.to-a.from), 0), 1) }

// ticks are at most about so many round numbers in the range.
func (a *axis) ticks(most int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((a.to-a.from)/float64(most))))
	for _, times := range []float64{1, 2, 5, 10} {
		if (a.to-a.from)/(step*times) <= float64(most) {
			step *= times
			break
		}
	}
	first := math.Ceil(a.from / step)
	var all []float64
	for i := range most + 2 {
		if v := (first + float64(i)) * step; v <= a.to+step*1e-9 && step > 0 {
			all = append(all, v)
		}
	}
	return all
}

// number is a tick as text, without the digits that rounding leaves.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'g', 6, 64)
	if text == "-0" {
		return "0"
	}
	return text
}
