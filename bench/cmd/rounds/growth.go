package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/bench/internal/costmodel"
	"github.com/edl-go/edl/bench/internal/picture"
	"github.com/edl-go/edl/bench/internal/rounds"
)

// Curves: in each but the last, one size of a job grows.
const (
	byTrainers   = "trainers"
	byGoroutines = "goroutine trainers" // not part of the model
	byPservers   = "pservers"
	byBytes      = "bytes"
	bySlices     = "slices"
	mixed        = "mixed" // jobs of which several sizes differ from those of the curves; never fitted
)

var curves = []string{byTrainers, byGoroutines, byPservers, byBytes, bySlices, mixed}

// A growthPoint is one job of a curve.
type growthPoint struct {
	curve string
	costmodel.Shape
	held bool // the model is not fitted to the point, but compared with it
}

// growthPoints returns the jobs of all curves. Every second point of a curve is held out.
func growthPoints() []growthPoint {
	var all []growthPoint
	curve := func(name string, values []int64, shape func(v int64) costmodel.Shape) {
		for i, v := range values {
			all = append(all, growthPoint{name, shape(v), i%2 == 1})
		}
	}
	trainers := func(n int64) costmodel.Shape {
		return costmodel.Shape{Trainers: int(n), Pservers: 2, Slices: 8, Bytes: 256 << 10}
	}
	upTo64 := []int64{1, 2, 4, 8, 16, 32, 64}
	curve(byTrainers, upTo64, trainers)
	curve(byGoroutines, upTo64, trainers)
	curve(byPservers, []int64{1, 2, 4, 8, 16}, func(m int64) costmodel.Shape {
		return costmodel.Shape{Trainers: 2, Pservers: int(m), Slices: 16, Bytes: 256 << 10}
	})
	curve(byBytes, []int64{1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20, 256 << 20, 1 << 30}, func(p int64) costmodel.Shape {
		return costmodel.Shape{Trainers: 1, Pservers: 2, Slices: 2, Bytes: p}
	})
	curve(bySlices, []int64{1, 4, 16, 64, 256, 1000}, func(s int64) costmodel.Shape {
		return costmodel.Shape{Trainers: 1, Pservers: 1, Slices: int(s), Bytes: s * (256000 / s / 64 * 64)}
	})
	for _, shape := range []costmodel.Shape{
		{Trainers: 4, Pservers: 4, Slices: 64, Bytes: 4 << 20}, {Trainers: 8, Pservers: 2, Slices: 256, Bytes: 1 << 20},
		{Trainers: 16, Pservers: 2, Slices: 16, Bytes: 64 << 10}, {Trainers: 2, Pservers: 8, Slices: 128, Bytes: 16 << 20}} {
		all = append(all, growthPoint{mixed, shape, true})
	}
	return all
}

// growthLease keeps roles alive that wait for a core for long.
const growthLease = 30

// row is the job of a point. Each trainer has one row of a batch, and each parameter is one slice.
func (p growthPoint) row() row {
	return row{label: fmt.Sprintf("N=%d M=%d S=%d P=%d", p.Trainers, p.Pservers, p.Slices, p.Bytes), job: rounds.Job{
		Workload: fmt.Sprintf("flat:%d:%d:%d/sgd", p.Trainers, p.Slices, p.Bytes), Trainers: int32(p.Trainers), Pservers: int32(p.Pservers),
		Goroutines: p.curve == byGoroutines, NoSlice: true, Lease: growthLease}}
}

// x is what grows in a curve.
func (p growthPoint) x() float64 {
	switch p.curve {
	case byPservers:
		return float64(p.Pservers)
	case byBytes:
		return float64(p.Bytes)
	case bySlices:
		return float64(p.Slices)
	}
	return float64(p.Trainers)
}

// A measuredPoint is a point with its figures.
type measuredPoint struct {
	growthPoint
	figures
}

// models are a model of the processor time of a round, and one of its wall time.
type models struct{ cpu, wall costmodel.Model }

// growthReport measures all points and writes the report, the table of points and the picture.
func growthReport(ctx context.Context, r *runner, out io.Writer) error {
	measured, left, err := measureGrowth(ctx, r)
	if err != nil {
		return err
	}
	var b strings.Builder
	r.introduce(&b)
	if left > 0 {
		fmt.Fprintf(&b, "%d points were not measured within %v.\n", left, r.limit)
	}
	m, err := fitModels(measured)
	if err != nil {
		fmt.Fprintf(&b, "There are too few points for a model: %v\n", err)
	} else {
		m.describe(&b, measured)
	}
	writeGrowth(&b, m, measured)
	r.writeFailures(&b)
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	if r.csv != "" {
		if err := writeFile(r.csv, func(w io.Writer) error { return writePoints(w, r.transports[0], m, measured) }); err != nil {
			return err
		}
	}
	if r.plot != "" {
		return plotGrowth(r.plot, m, measured)
	}
	return nil
}

// measureGrowth measures the points that the flags choose, in rounds, until the limit of time. It returns how many it could not measure in time.
func measureGrowth(ctx context.Context, r *runner) (measured []measuredPoint, left int, err error) {
	limited, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	points := slices.DeleteFunc(growthPoints(), func(p growthPoint) bool { return !r.run.MatchString(p.curve + "/" + p.row().label) })
	keyOf := func(p growthPoint) key { return key{p.curve + "/" + p.row().label, edl, r.transports[0]} }
	for round := range r.rounds {
		for _, p := range points {
			if err := r.measure(limited, keyOf(p), p.row(), round); err != nil {
				if ctx.Err() != nil {
					return nil, 0, err
				}
				break
			}
		}
	}
	for _, p := range points {
		f := r.figures(keyOf(p))
		if f.n > 0 {
			measured = append(measured, measuredPoint{p, f})
		} else if r.failed[keyOf(p)] == "" {
			left++
		}
	}
	return measured, left, nil
}

// pointsOf returns the costs, in milliseconds, of those points of the model that are held out, or of the others.
func pointsOf(measured []measuredPoint, held bool, cost func(f figures) float64) []costmodel.Point {
	var points []costmodel.Point
	for _, p := range measured {
		if c := cost(p.figures) / 1e3; p.held == held && p.curve != byGoroutines && c > 0 {
			points = append(points, costmodel.Point{Shape: p.Shape, Cost: c})
		}
	}
	return points
}

func cpuOf(f figures) float64  { return f.cpu }
func wallOf(f figures) float64 { return f.median }

func fitModels(measured []measuredPoint) (m models, err error) {
	var wrong error
	m.cpu, err = costmodel.Fit(pointsOf(measured, false, cpuOf))
	m.wall, wrong = costmodel.Fit(pointsOf(measured, false, wallOf))
	return m, errors.Join(err, wrong)
}

// describe writes the models and their errors.
func (m models) describe(b *strings.Builder, measured []measuredPoint) {
	b.WriteString("\nA round of N trainers and M pservers with S slices of P MB in total costs\n\n")
	for _, one := range []struct {
		what  string
		model costmodel.Model
		cost  func(f figures) float64
	}{{"processor time", m.cpu, cpuOf}, {"wall time", m.wall, wallOf}} {
		fmt.Fprintf(b, "- %s: %v. Fitted: %v. Held out: %v.\n", one.what, one.model, one.model.Errors(pointsOf(measured, false, one.cost)),
			one.model.Errors(pointsOf(measured, true, one.cost)))
	}
}

// writeGrowth writes one table for each curve.
func writeGrowth(b *strings.Builder, m models, measured []measuredPoint) {
	for _, curve := range curves {
		var lines [][]string
		for _, p := range measured {
			if p.curve != curve {
				continue
			}
			lines = append(lines, []string{strconv.Itoa(p.Trainers), strconv.Itoa(p.Pservers), strconv.Itoa(p.Slices), sizeText(p.Bytes), duration(p.median),
				duration(p.cpu), p.predicted(m.cpu), p.use(), fmt.Sprintf("%.0f", p.switches), fmt.Sprintf("%.0f MB", p.peak/1e6)})
		}
		if len(lines) > 0 {
			fmt.Fprintf(b, "\nRounds by %s\n\n", curve)
			writeTable(b, []string{"trainers", "pservers", "slices", "bytes", "a round", "CPU of a round", "by the model", "", "context switches",
				"peak memory of all processes"}, lines)
		}
	}
}

// use says what a point is to the model.
func (p measuredPoint) use() string {
	switch {
	case p.curve == byGoroutines:
		return "other roles"
	case p.held:
		return "held out"
	}
	return "fitted"
}

// predicted is what a model says of a point; empty if it was not fitted, or not for such roles.
func (p measuredPoint) predicted(m costmodel.Model) string {
	if m == (costmodel.Model{}) || p.curve == byGoroutines {
		return ""
	}
	return duration(1e3 * m.Predict(p.Shape))
}

// sizeText writes bytes in the largest unit that has at least one.
func sizeText(n int64) string {
	for i, unit := range []string{"GB", "MB", "KB"} {
		if size := float64(int64(1) << (30 - 10*i)); float64(n) >= size {
			return strconv.FormatFloat(float64(n)/size, 'g', 4, 64) + " " + unit
		}
	}
	return fmt.Sprintf("%d B", n)
}

// writePoints writes all points as CSV.
func writePoints(w io.Writer, transport string, m models, measured []measuredPoint) error {
	c := csv.NewWriter(w)
	lines := [][]string{{"curve", "transport", "trainers", "pservers", "slices", "bytes", "use", "round_ms", "cpu_ms", "switches", "mallocs", "peak_mb",
		"model_round_ms", "model_cpu_ms"}}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 5, 64) }
	for _, p := range measured {
		wall, cpu := "", ""
		if p.curve != byGoroutines {
			wall, cpu = number(m.wall.Predict(p.Shape)), number(m.cpu.Predict(p.Shape))
		}
		lines = append(lines, []string{p.curve, cmp.Or(transport, "default"), strconv.Itoa(p.Trainers), strconv.Itoa(p.Pservers), strconv.Itoa(p.Slices),
			strconv.FormatInt(p.Bytes, 10), p.use(), number(p.median / 1e3), number(p.cpu / 1e3), number(p.switches), number(p.mallocs),
			number(p.peak / 1e6), wall, cpu})
	}
	return c.WriteAll(lines)
}

func writeFile(path string, write func(w io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := write(file); err != nil {
		return err
	}
	return file.Close()
}

// plotGrowth draws a panel for each curve in which something grows.
func plotGrowth(file string, m models, measured []measuredPoint) error {
	var panels []*picture.Panel
	for _, curve := range []string{byTrainers, byPservers, byBytes, bySlices} {
		p := picture.New("Rounds by "+curve, curve, "ms")
		for _, line := range []struct {
			name, curve string
			y           func(p measuredPoint) float64
			dashed      bool
		}{
			{"a round", curve, func(p measuredPoint) float64 { return p.median / 1e3 }, false},
			{"its CPU", curve, func(p measuredPoint) float64 { return p.cpu / 1e3 }, false},
			{"its CPU by the model", curve, func(p measuredPoint) float64 { return m.cpu.Predict(p.Shape) }, true},
			{"a round, goroutines", byGoroutines, func(p measuredPoint) float64 { return p.median / 1e3 }, true},
		} {
			var points []picture.Point
			for _, point := range measured {
				if y := line.y(point); point.curve == line.curve && y > 0 && (line.curve == curve || curve == byTrainers) {
					points = append(points, picture.Point{X: point.x(), Y: y})
				}
			}
			if err := p.Add(line.name, points, line.dashed); err != nil {
				return err
			}
		}
		if p.Lines() > 0 {
			panels = append(panels, p)
		}
	}
	if len(panels) == 0 {
		return nil
	}
	return picture.Draw(file, panels, 2)
}
