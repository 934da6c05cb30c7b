// Package picture draws the curves of benchmarks: panels with logarithmic axes, next to and below each other.
package picture

import (
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // draws PNG
	_ "gonum.org/v1/plot/vg/vgsvg"
)

// A Panel is one diagram.
type Panel struct {
	plot  *plot.Plot
	lines int
}

// A Point is a point of a line. Both coordinates are above 0.
type Point = plotter.XY

// New returns a panel without lines.
func New(title, x, y string) *Panel {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = false, false // below the lines, which rise to the right
	p.Legend.Padding = vg.Millimeter
	p.Add(plotter.NewGrid())
	return &Panel{plot: p}
}

// Add draws a line through points, in a color of its own. A line without points is left out.
func (p *Panel) Add(name string, points []Point, dashed bool) error {
	if len(points) == 0 {
		return nil
	}
	line, err := plotter.NewLine(plotter.XYs(points))
	if err != nil {
		return err
	}
	line.Color, line.Width = plotutil.Color(p.lines), vg.Points(1.5)
	if dashed {
		line.Dashes = plotutil.Dashes(1)
	}
	p.plot.Add(line)
	p.plot.Legend.Add(name, line)
	p.lines++
	return nil
}

// Lines returns the number of lines.
func (p *Panel) Lines() int { return p.lines }

// Size of a panel.
const width, height = 11 * vg.Centimeter, 10 * vg.Centimeter

// Draw writes panels with at most so many in a row into an SVG or PNG file. Every panel has a line.
func Draw(file string, panels []*Panel, columns int) error {
	columns = max(1, min(columns, len(panels)))
	rows := (len(panels) + columns - 1) / columns
	grid := make([][]*plot.Plot, rows)
	for i := range grid {
		grid[i] = make([]*plot.Plot, columns)
	}
	for i, p := range panels {
		grid[i/columns][i%columns] = p.plot
	}
	picture, err := draw.NewFormattedCanvas(width*vg.Length(columns), height*vg.Length(rows), strings.TrimPrefix(filepath.Ext(file), "."))
	if err != nil {
		return err
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: vg.Centimeter / 2, PadY: vg.Centimeter / 2, PadRight: vg.Centimeter / 2, PadTop: vg.Centimeter / 4}
	for i, row := range plot.Align(grid, tiles, draw.New(picture)) {
		for j, canvas := range row {
			if grid[i][j] != nil {
				grid[i][j].Draw(canvas)
			}
		}
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := picture.WriteTo(out); err != nil {
		return err
	}
	return out.Close()
}
