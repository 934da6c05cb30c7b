package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/bench/internal/measure"
)

// patience is how long one measurement may take.
const patience = 10 * time.Minute

// clockTick is the unit of /proc/stat on Linux.
const clockTick = 10 * time.Millisecond

// A sample is one measurement, with the cores that other processes used meanwhile.
type sample struct {
	measure.Result
	others float64
}

// take runs cmd, which prints a measurement.
func take(cmd *exec.Cmd) (sample, error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	before, start := busy(), time.Now()
	if err := cmd.Run(); err != nil {
		return sample{}, fmt.Errorf("%s: %w\n%s", cmd, err, said.Bytes())
	}
	others, elapsed := busy()-before-cmd.ProcessState.UserTime()-cmd.ProcessState.SystemTime(), time.Since(start)
	result, err := measure.Read(out.Bytes())
	return sample{result, max(0, others.Seconds()/elapsed.Seconds())}, err
}

// calm takes a sample until one is undisturbed, a number of times at most, and returns the least disturbed one.
func calm(ctx context.Context, s settings, make func(context.Context) *exec.Cmd) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var best sample
	for try := range 1 + s.retries {
		now, err := take(make(ctx))
		if err != nil {
			return sample{}, err
		}
		if try == 0 || now.others < best.others {
			best = now
		}
		if best.others <= s.calm {
			break
		}
	}
	return best, nil
}

// busy returns the time that the cores of this machine have worked since it was started. Where that is not known it is 0, and no
// measurement counts as disturbed.
func busy() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, interrupt, soft, steal int64
	if _, err := fmt.Sscanf(string(stat), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &interrupt, &soft, &steal); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+interrupt+soft+steal) * clockTick
}

// A key says who measured what.
type key struct {
	contender, workload string
	threads             int
}

// measureAll takes s.rounds samples of all rows that s.run matches. A contender that does not know a workload has no samples of it.
func measureAll(ctx context.Context, s settings, sections []section, all map[string]contender) (map[key][]sample, error) {
	samples := map[key][]sample{}
	for round := range s.rounds {
		for k := range turns(s, sections, round) {
			one, err := calm(ctx, s, func(ctx context.Context) *exec.Cmd { return all[k.contender](ctx, k.workload, k.threads, s.seconds) })
			if err != nil {
				return nil, err
			}
			samples[k] = append(samples[k], one)
			fmt.Fprintf(os.Stderr, "round %d, %-8s %s, %s: %s, others used %.2f cores\n",
				round+1, k.contender, k.workload, threadsText(k.threads), duration(one.Median), one.others)
		}
	}
	return samples, nil
}

// turns returns who measures what in a round, in order. Each row is measured by all contenders one after the other; who comes first changes
// from round to round.
func turns(s settings, sections []section, round int) iter.Seq[key] {
	return func(yield func(key) bool) {
		for _, part := range sections {
			turn := slices.Clone(part.contenders)
			if round%2 == 1 {
				slices.Reverse(turn)
			}
			for _, r := range part.rows {
				for _, threads := range s.threads {
					for _, name := range turn {
						if s.run.MatchString(r.workload) && knows(name, r.workload) && !yield(key{name, r.workload, threads}) {
							return
						}
					}
				}
			}
		}
	}
}

// knows reports whether a contender has a workload.
func knows(contender, workload string) bool {
	return contender != gorgonia || strings.HasPrefix(workload, "mlp") || strings.HasPrefix(workload, "conv")
}
