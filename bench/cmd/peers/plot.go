package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/bench"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // draws PNG
	_ "gonum.org/v1/plot/vg/vgsvg"
)

// Size of one panel of the picture.
const panelWidth, panelHeight = 11 * vg.Centimeter, 10 * vg.Centimeter

// plotGrowth draws the sections of growth beside each other into s.plot, an SVG or PNG file: step time against what grows, both on logarithmic axes,
// with the least time that the machine allows.
func plotGrowth(s settings, m machine, measured map[key][]sample) error {
	var panels []*plot.Plot
	for _, part := range growth {
		p, err := part.plot(s, m, measured)
		if err != nil {
			return err
		}
		if p != nil {
			panels = append(panels, p)
		}
	}
	picture, err := draw.NewFormattedCanvas(panelWidth*vg.Length(len(panels)), panelHeight, strings.TrimPrefix(filepath.Ext(s.plot), "."))
	if err != nil {
		return err
	}
	tiles := draw.Tiles{Rows: 1, Cols: len(panels), PadX: vg.Centimeter / 2, PadRight: vg.Centimeter / 2, PadTop: vg.Centimeter / 4}
	for i, row := range plot.Align([][]*plot.Plot{panels}, tiles, draw.New(picture))[0] {
		panels[i].Draw(row)
	}
	file, err := os.Create(s.plot)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := picture.WriteTo(file); err != nil {
		return err
	}
	return file.Close()
}

// plot is the panel of a section, nil when nothing of it was measured.
func (part section) plot(s settings, m machine, measured map[key][]sample) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = part.title
	p.X.Label.Text, p.Y.Label.Text = part.column, "time of a step, us"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = false, false // below the lines, which rise to the right
	p.Legend.Padding = vg.Millimeter
	p.Add(plotter.NewGrid())
	lines := 0
	add := func(name string, points plotter.XYs, dashed bool) error {
		if len(points) == 0 {
			return nil
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color, line.Width = plotutil.Color(lines), vg.Points(1.5)
		if dashed {
			line.Dashes = plotutil.Dashes(1)
		}
		p.Add(line)
		p.Legend.Add(name, line)
		lines++
		return nil
	}
	for _, threads := range s.threads {
		var least plotter.XYs
		for i, name := range part.contenders {
			var points plotter.XYs
			for _, r := range part.rows {
				f := s.figures(measured[key{name, r.workload, threads}])
				if f.n == 0 {
					continue
				}
				points = append(points, plotter.XY{X: r.x, Y: f.median})
				w, err := bench.New(r.workload)
				if err != nil {
					return nil, err
				}
				if t := m.least(w.Flops, w.Bytes, threads); i == 0 && t > 0 {
					least = append(least, plotter.XY{X: r.x, Y: t})
				}
			}
			if err := add(name+", "+threadsText(threads), points, i > 0); err != nil {
				return nil, err
			}
		}
		if threads == s.threads[0] {
			if err := add("limit, "+threadsText(threads), least, true); err != nil {
				return nil, err
			}
		}
	}
	if lines == 0 {
		return nil, nil
	}
	return p, nil
}
