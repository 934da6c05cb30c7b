package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/edl-go/edl/bench/internal/pytorch"
)

// report writes a table for every section with measurements.
func (r *runner) report(out io.Writer, sections []section) error {
	var b strings.Builder
	r.introduce(&b)
	rows := map[string][]string{}
	for workload, kernels := range r.kernels {
		rows[kernels] = append(rows[kernels], workload)
	}
	for _, kernels := range []string{pytorch.Own, pytorch.SkylakeX} {
		if slices.Sort(rows[kernels]); len(rows[kernels]) > 0 {
			fmt.Fprintf(&b, "DDP has %s in %s.\n", pytorch.KernelsText(kernels), strings.Join(rows[kernels], ", "))
		}
	}
	for _, part := range sections {
		var lines [][]string
		for _, row := range part.rows {
			if r.run.MatchString(part.name + "/" + row.label) {
				lines = append(lines, part.write(r, part, row)...)
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s\n\n", part.title)
			writeTable(&b, part.heading, lines)
		}
	}
	r.writeFailures(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

// introduce says how the figures were measured.
func (r *runner) introduce(b *strings.Builder) {
	median, most := r.disturbance()
	fmt.Fprintf(b, "%d cores, %s. %d x %g s each, medians (lowest to highest).\n", runtime.NumCPU(), runtime.Version(), r.rounds, r.seconds)
	fmt.Fprintf(b, "Other processes used %.2f cores in the median measurement, %.2f at most.\n", median, most)
}

func (r *runner) writeFailures(b *strings.Builder) {
	if failures := r.failures(); len(failures) > 0 {
		fmt.Fprintf(b, "\nMeasurements that failed:\n\n- %s\n", strings.Join(failures, "\n- "))
	}
}

func writeTable(b *strings.Builder, heading []string, lines [][]string) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(heading, " | "), strings.Repeat("---|", len(heading)))
	for _, line := range lines {
		fmt.Fprintf(b, "| %s |\n", strings.Join(line, " | "))
	}
}

// eachTransport calls line for every transport with which a row was measured.
func (r *runner) eachTransport(part section, row row, line func(name, transport string, ours figures) []string) [][]string {
	var lines [][]string
	name := part.name + "/" + row.label
	for _, transport := range r.transports {
		if ours := r.figures(key{name, edl, transport}); ours.n > 0 {
			lines = append(lines, append([]string{row.label, cmp.Or(transport, "default")}, line(name, transport, ours)...))
		}
	}
	return lines
}

func stepLines(r *runner, part section, row row) [][]string {
	return r.eachTransport(part, row, func(name, transport string, ours figures) []string {
		theirs, alone := r.figures(key{name, ddp, ""}), r.figures(key{name, oneMachine, ""})
		inside := r.figures(key{name, goroutines, r.transports[0]})
		mallocs := ""
		if inside.n > 0 && transport == r.transports[0] {
			mallocs = fmt.Sprintf("%.0f", inside.mallocs)
		}
		reading := r.figures(key{name, ddpReading, ""})
		return []string{ours.time(), theirs.time(), ratio(theirs.median, ours.median), reading.time(), ratio(reading.median, ours.median), alone.time(),
			pair(ours.n, duration(ours.cpu), theirs.n, duration(theirs.cpu)),
			pair(ours.n, fmt.Sprintf("%.0f", ours.switches), theirs.n, fmt.Sprintf("%.0f", theirs.switches)), mallocs}
	})
}

func gridLine(r *runner, part section, row row) [][]string {
	return r.eachTransport(part, row, func(_, _ string, ours figures) []string {
		return []string{ours.time(), duration(ours.cpu), fmt.Sprintf("%.0f", ours.switches), fmt.Sprintf("%.0f MB", ours.peak/1e6)}
	})
}

func transferLine(r *runner, part section, row row) [][]string {
	return r.eachTransport(part, row, func(name, transport string, ours figures) []string {
		raw := r.figures(key{name, sockets, transport})
		network := transport
		if raw.n == 0 {
			raw, network = r.figures(key{name, sockets, "tcp"}), "tcp"
		}
		rate := func(f figures) string {
			if f.n == 0 {
				return ""
			}
			return fmt.Sprintf("%.2f GB/s", float64(row.bytes)/f.median*1e-3)
		}
		copied := rate(raw)
		if copied != "" {
			copied += " (" + network + ")"
		}
		return []string{ours.time(), rate(ours), copied, ratio(raw.median, ours.median), r.figures(key{name, oneMachine, ""}).time()}
	})
}

func requestLine(r *runner, part section, row row) [][]string {
	return r.eachTransport(part, row, func(name, _ string, ours figures) []string {
		trips := ""
		if raw := r.figures(key{name, sockets, "tcp"}); raw.n > 0 {
			trips = fmt.Sprintf("%.0f a second", 1e6*float64(row.job.Pservers)/raw.median)
		}
		moved := fmt.Sprintf("%.0f a second", 2*1e6*float64(row.requests)/ours.median)
		return []string{moved, ours.time(), r.figures(key{name, oneMachine, ""}).time(), trips}
	})
}

func wholeLine(r *runner, part section, row row) [][]string {
	return r.eachTransport(part, row, func(_, _ string, ours figures) []string {
		return []string{fmt.Sprintf("%.1f s", ours.seconds), fmt.Sprintf("%.1f s", ours.wholes), fmt.Sprint(ours.steps), fmt.Sprintf("%.0f", ours.restarts)}
	})
}

// time is a cell: the median, and the lowest and highest of the rounds.
func (f figures) time() string {
	if f.n == 0 {
		return ""
	}
	text := fmt.Sprintf("%s (%s to %s)", duration(f.median), duration(f.lowest), duration(f.highest))
	if f.disturbed > 0 {
		text += fmt.Sprintf(", %d of %d disturbed", f.disturbed, f.n)
	}
	return text
}

// pair is a cell with a figure of two contenders, of which the second may be missing.
func pair(n int, ours string, m int, theirs string) string {
	switch {
	case n == 0:
		return ""
	case m == 0:
		return ours
	}
	return ours + " / " + theirs
}

func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", a/b)
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
