package pserver_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/tensor"
)

// BenchmarkCut measures what a checkpoint of 100 MB costs the rounds of a server with one trainer, which computes for so long in each round.
//
//	ms/round     a round, where no checkpoint is made
//	ms/held      how long rounds wait, together, until what they change is kept of a cut
//	ms/slower    how much longer a round takes while a cut is kept, summed up and written
//	MB/s         from the cut until the server's part is durable
//	MB/s-plain   a file of as many bytes, written and synced by one goroutine at the same place, as dd does
func BenchmarkCut(b *testing.B) {
	for _, computing := range []time.Duration{0, 50 * time.Millisecond} {
		b.Run(computing.String(), func(b *testing.B) { benchmarkCut(b, computing) })
	}
}

func benchmarkCut(b *testing.B, computing time.Duration) {
	const parameters, each = 16, 100e6 / 4 / 16
	sizes := slices.Repeat([]int64{each}, parameters)
	s := pstest.Start(b, pstest.WithData(b, pstest.Config(1)), pstest.SGD(0, true, 1e-3, sizes...))
	send, receive := pstest.Names(parameters)
	line, err := pstest.Trainer{Client: s.Client, Carrier: dataplane.Shared}.Open(b.Context(), 0, send, receive, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer line.Close()
	var all []int
	var grads, params []*tensor.Tensor
	for i := range parameters {
		all, grads, params = append(all, i), append(grads, pstest.Filled(each, 1)), append(params, pstest.Vector(each))
	}
	number := uint64(0)
	round := func() time.Duration {
		began := time.Now()
		line.Bound(b.Context(), began.Add(pstest.Patience)) // a round, not the benchmark
		for time.Since(began) < computing {                 // as a trainer does: on a core of its own
		}
		if err := line.Data(number, all, grads...); err != nil {
			b.Fatal(err)
		}
		if err := line.Answer(dataplane.Ack, number); err != nil {
			b.Fatal(err)
		}
		if err := line.Declare(number, 1, parameters); err != nil {
			b.Fatal(err)
		}
		if err := line.ParamsInto(number+1, params); err != nil {
			b.Fatal(err)
		}
		number++
		return time.Since(began)
	}
	c := cutter{s, b.TempDir()}
	var alone, held, slower []time.Duration
	var writing, plain time.Duration
	cut := func() { // asked for while no round runs, so the cut begins before the next one
		name := checkpoint.NewName("job", number)
		began := time.Now()
		answer := c.start(b.Context(), number, name)
		for {
			slower = append(slower, round())
			select {
			case a := <-answer:
				if a.err != nil || a.Past {
					b.Fatal(a.CutResponse, a.err)
				}
				writing += time.Since(began)
				held = append(held, s.Held())
				return
			default:
			}
		}
	}
	cut() // the first one comes into a store that is not there yet
	held, slower, writing = nil, nil, 0
	for b.Loop() {
		for range 20 {
			alone = append(alone, round())
		}
		cut()
		plain += writePlain(b, c.dir)
	}
	median := func(list []time.Duration) time.Duration {
		slices.Sort(list)
		return list[len(list)/2]
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	usual := median(alone)
	b.ReportMetric(ms(usual), "ms/round")
	b.ReportMetric(ms(median(held)), "ms/held")
	b.ReportMetric(ms(median(slower)-usual), "ms/slower")
	b.ReportMetric(100*float64(b.N)/writing.Seconds(), "MB/s")
	b.ReportMetric(100*float64(b.N)/plain.Seconds(), "MB/s-plain")
}

// writePlain writes 100 MB to a new file, waits until they are on the disk, and removes it.
func writePlain(b *testing.B, dir string) time.Duration {
	b.Helper()
	block := make([]byte, 1<<20)
	began := time.Now()
	f, err := os.CreateTemp(dir, "plain")
	if err != nil {
		b.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for left := int64(100e6); left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}
