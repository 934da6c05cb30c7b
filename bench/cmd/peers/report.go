package main

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/edl-go/edl/bench"
	"github.com/edl-go/edl/bench/internal/measure"
	"github.com/edl-go/edl/bench/internal/picture"
	"github.com/edl-go/edl/bench/internal/pytorch"
)

// report writes a table for every section with measurements.
func report(out io.Writer, s settings, m machine, sections []section, measured map[key][]sample, chosen map[key]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores, %s. %d x %g s each, %s.\n", m.processor, runtime.NumCPU(), runtime.Version(), s.rounds, s.seconds, s.statistic())
	for _, n := range s.threads {
		fmt.Fprintf(&b, "Limits with %s: %.0f GFLOP/s (float32 %s multiply-adds), %.1f GB/s read from memory.\n", threadsText(n), m.peak[n]*1e-9,
			m.instructions, m.bandwidth[n]*1e-9)
	}
	var others []float64
	for _, samples := range measured {
		for _, one := range samples {
			others = append(others, one.others)
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		fmt.Fprintf(&b, "Other processes used %.2f cores in the median measurement, %.2f at most.\n", measure.Median(others), others[len(others)-1])
	}
	writeKernels(&b, chosen)
	for _, part := range sections {
		if err := part.write(&b, s, m, measured); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeKernels says with which kernels of OpenBLAS each row was measured, if there was a choice.
func writeKernels(b *strings.Builder, chosen map[key]string) {
	rows := map[string][]string{}
	for k, kernels := range chosen {
		rows[kernels] = append(rows[kernels], fmt.Sprintf("%s (%s)", k.workload, threadsText(k.threads)))
	}
	for _, kernels := range slices.Sorted(maps.Keys(rows)) {
		slices.Sort(rows[kernels])
		fmt.Fprintf(b, "PyTorch and OpenBLAS were fastest with %s in %s.\n", pytorch.KernelsText(kernels), strings.Join(rows[kernels], ", "))
	}
}

// write appends the table of a section.
func (part section) write(b *strings.Builder, s settings, m machine, measured map[key][]sample) error {
	var lines []string
	for _, r := range part.rows {
		w, err := bench.New(r.workload)
		if err != nil {
			return err
		}
		for _, threads := range s.threads {
			ours := s.figures(measured[key{edl, r.workload, threads}])
			if ours.n == 0 {
				continue
			}
			cells := []string{r.label, fmt.Sprint(threads), part.figure(ours, w.Flops)}
			memory := fmt.Sprintf("%.0f MB", ours.memory)
			for i, name := range part.contenders[1:] {
				theirs := s.figures(measured[key{name, r.workload, threads}])
				if theirs.n == 0 {
					cells = append(cells, "", "")
					continue
				}
				cells = append(cells, part.figure(theirs, w.Flops), fmt.Sprintf("%.2f", theirs.median/ours.median))
				if i == 0 {
					memory += fmt.Sprintf(" / %.0f MB", theirs.memory)
				}
			}
			share := ""
			if least := m.least(w.Flops, w.Bytes, threads); least > 0 {
				share = fmt.Sprintf("%.1f %%", 100*least/ours.median)
			}
			lines = append(lines, "| "+strings.Join(append(cells, share, memory), " | ")+" |\n")
		}
	}
	if len(lines) == 0 {
		return nil
	}
	heading := []string{part.column, "threads", edl}
	for _, name := range part.contenders[1:] {
		heading = append(heading, name, name+" / "+edl)
	}
	heading = append(heading, "of the limit", "peak memory, "+edl+" / "+part.contenders[1])
	fmt.Fprintf(b, "\n%s\n\n| %s |\n|%s\n%s", part.title, strings.Join(heading, " | "), strings.Repeat("---|", len(heading)), strings.Join(lines, ""))
	return nil
}

// figure is a cell: the median, and the lowest and highest of the rounds.
func (part section) figure(f figures, flops int64) string {
	if part.rate {
		rate := func(microseconds float64) float64 { return float64(flops) / microseconds * 1e-3 }
		return fmt.Sprintf("%.1f GFLOP/s (%.1f to %.1f)", rate(f.median), rate(f.highest), rate(f.lowest))
	}
	return fmt.Sprintf("%s (%s to %s)", duration(f.median), duration(f.lowest), duration(f.highest))
}

// statistic names the figures.
func (s settings) statistic() string {
	windows, of := "median", ""
	if s.best {
		windows = "fastest"
	}
	if s.cpu {
		of = ", in processor time"
	}
	return "medians (lowest to highest) of the " + windows + " windows" + of
}

func threadsText(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}

// duration writes microseconds with three digits.
func duration(microseconds float64) string {
	unit := "us"
	if microseconds >= 1000 {
		microseconds, unit = microseconds/1000, "ms"
	}
	digits := 2
	for limit := 10.0; digits > 0 && microseconds >= limit; limit *= 10 {
		digits--
	}
	return fmt.Sprintf("%.*f %s", digits, microseconds, unit)
}

// figures sums samples up: microseconds over the rounds, and megabytes.
type figures struct {
	n                       int
	median, lowest, highest float64
	memory                  float64
}

func (s settings) figures(samples []sample) figures {
	if len(samples) == 0 {
		return figures{}
	}
	var times, memory []float64
	for _, one := range samples {
		times = append(times, s.time(one.Result))
		memory = append(memory, float64(one.PeakMemory)/1e6)
	}
	slices.Sort(times)
	slices.Sort(memory)
	return figures{len(samples), measure.Median(times), times[0], times[len(times)-1], measure.Median(memory)}
}

// time is what s compares of a measurement.
func (s settings) time(r measure.Result) float64 {
	switch {
	case s.cpu && s.best:
		return r.CPUFastest
	case s.cpu:
		return r.CPUMedian
	case s.best:
		return r.Fastest
	}
	return r.Median
}

// plotGrowth draws the sections of growth next to each other into s.plot, an SVG or PNG file: step time over the growing number, both on
// logarithmic axes, with the least time that the machine allows.
func plotGrowth(s settings, m machine, measured map[key][]sample) error {
	var panels []*picture.Panel
	for _, part := range growth {
		p, err := part.plot(s, m, measured)
		if err != nil {
			return err
		}
		if p.Lines() > 0 {
			panels = append(panels, p)
		}
	}
	return picture.Draw(s.plot, panels, len(growth))
}

// plot is the panel of a section. It has no lines if there are no measurements.
func (part section) plot(s settings, m machine, measured map[key][]sample) (*picture.Panel, error) {
	p := picture.New(part.title, part.column, "time of a step, us")
	for _, threads := range s.threads {
		var least []picture.Point
		for i, name := range part.contenders {
			var points []picture.Point
			for _, r := range part.rows {
				f := s.figures(measured[key{name, r.workload, threads}])
				if f.n == 0 {
					continue
				}
				points = append(points, picture.Point{X: r.x, Y: f.median})
				w, err := bench.New(r.workload)
				if err != nil {
					return nil, err
				}
				if t := m.least(w.Flops, w.Bytes, threads); i == 0 && t > 0 {
					least = append(least, picture.Point{X: r.x, Y: t})
				}
			}
			if err := p.Add(name+", "+threadsText(threads), points, i > 0); err != nil {
				return nil, err
			}
		}
		if threads == s.threads[0] {
			if err := p.Add("limit, "+threadsText(threads), least, true); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}
