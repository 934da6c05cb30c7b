package pserver_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/tensor"
)

// BenchmarkCut measures what a checkpoint of 100 MB costs the rounds of a server with one trainer, which computes for so long in each round.
//
//	ms/round     a round, where no checkpoint is made
//	ms/held      how long rounds wait, together, until what they change is kept of a cut
//	ms/longest   the longest of these waits
//	ms/worst     the longest of all cuts
//	ms/slower    how much longer a round takes while a cut is kept, summed up and written
//	MB/more      the most memory that the process has meanwhile, beyond what it has before
//	MB/stays     how much of that it has afterwards
//	MB/s         from the cut until the server's part is durable
//	MB/s-plain   a file of as many bytes, written and synced by one goroutine at the same place, as dd does
//	MB/s-beside  the same while rounds go on
//	MB/s-summed  the same while rounds go on, and with the SHA-256 of what is written, part by part on another goroutine: what cores are left for
//
// Rounds change all of it, or 2^13 random rows of a table.
func BenchmarkCut(b *testing.B) {
	for _, computing := range []time.Duration{0, 50 * time.Millisecond} {
		b.Run(computing.String(), func(b *testing.B) { benchmarkCut(b, computing, false) })
	}
	b.Run("table", func(b *testing.B) { benchmarkCut(b, 0, true) })
}

// withTable is a program with a table of rows of 16 numbers, of which each round changes some.
func withTable(b *testing.B, rows int64, touched int) *pstest.Program {
	const width = 16
	p := pstest.SGD(0, true, 1e-3, 4)
	table, err := tensor.New(tensor.Float32, rows, width)
	arrived, wrong := tensor.New(tensor.Int32, compress.RowsDims(rows, width)...)
	if err != nil || wrong != nil {
		b.Fatal(err, wrong)
	}
	kernel.Fill(table.Float32s(), 1)
	p.Variables["table"], p.Variables["arrived"], p.ByRows = table, arrived, map[string]string{"table": "arrived"}
	p.Service.Slices = append(p.Service.Slices, comm.Slice{Name: "table", Origin: "table", Rows: rows, TotalRows: rows})
	p.Uses[1] = append(p.Uses[1], "table", "arrived")
	form, _ := compress.RowsOf(arrived)
	draw, sgd := rand.New(rand.NewPCG(1, 2)), p.Blocks[1]
	bring := func() {
		numbers, _ := form.Begin(touched)
		for i := range numbers {
			numbers[i] = draw.Int32N(int32(rows))
		}
	}
	bring()
	p.Blocks[1] = func(ctx context.Context, step ops.Step) error {
		numbers, _, err := form.Used()
		for _, row := range numbers {
			for i := range width {
				table.Float32s()[int(row)*width+i]++
			}
		}
		bring()
		return errors.Join(err, sgd(ctx, step))
	}
	return p
}

func benchmarkCut(b *testing.B, computing time.Duration, table bool) {
	parameters, each := 16, int64(100e6/4/16)
	if table {
		parameters, each = 1, 4
	}
	p := pstest.SGD(0, true, 1e-3, slices.Repeat([]int64{each}, parameters)...)
	if table {
		p = withTable(b, 100e6/4/16, 1<<13)
	}
	s := pstest.Start(b, pstest.WithData(b, pstest.Config(1)), p)
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
	var alone, held, longest, slower []time.Duration
	var writing, plain, beside, summed time.Duration
	var more, stays int64
	ahead := uint64(2)
	var cut func()
	cut = func() { // asked for a little ahead, as a coordinator does
		at := number + ahead
		name := checkpoint.NewName("job", at)
		before := residentMemory(b, "VmRSS")
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the most from now on
			b.Skip(err)
		}
		answer, ended := c.start(b.Context(), at, name), make(chan timedAnswer, 1)
		go func() { ended <- timedAnswer{<-answer, time.Now()} }()
		var began time.Time
		for {
			if took := round(); number > at {
				slower = append(slower, took)
			} else if began = time.Now(); number == at {
				continue
			}
			select {
			case a := <-ended:
				if a.err != nil {
					b.Fatal(a.err)
				}
				if a.Past {
					ahead *= 2
					cut()
					return
				}
				writing += a.at.Sub(began)
				held, longest = append(held, s.Held()), append(longest, s.LongestHeld())
				more, stays = max(more, residentMemory(b, "VmHWM")-before), residentMemory(b, "VmRSS")-before
				return
			default:
			}
		}
	}
	during := func(write func() (time.Duration, error)) time.Duration { // how long write took, while rounds went on
		var took time.Duration
		ended := make(chan error, 1)
		go func() {
			var err error
			took, err = write()
			ended <- err
		}()
		for {
			round()
			select {
			case err := <-ended:
				if err != nil {
					b.Fatal(err)
				}
				return took
			default:
			}
		}
	}
	plainFile := func() (time.Duration, error) { return writePlain(c.dir, false) }
	cut() // the first one comes into a store that is not there yet
	held, longest, slower, writing, more = nil, nil, nil, 0, 0
	for b.Loop() {
		for range 20 {
			alone = append(alone, round())
		}
		cut()
		took, err := plainFile()
		if err != nil {
			b.Fatal(err)
		}
		plain += took
		beside += during(plainFile)
		summed += during(func() (time.Duration, error) { return writePlain(c.dir, true) })
	}
	median := func(list []time.Duration) time.Duration {
		slices.Sort(list)
		return list[len(list)/2]
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	usual := median(alone)
	b.ReportMetric(ms(usual), "ms/round")
	b.ReportMetric(ms(median(held)), "ms/held")
	b.ReportMetric(ms(median(longest)), "ms/longest")
	b.ReportMetric(ms(longest[len(longest)-1]), "ms/worst") // median has sorted them
	b.ReportMetric(ms(median(slower)-usual), "ms/slower")
	b.ReportMetric(float64(more)/1e6, "MB/more")
	b.ReportMetric(float64(stays)/1e6, "MB/stays")
	b.ReportMetric(100*float64(b.N)/writing.Seconds(), "MB/s")
	b.ReportMetric(100*float64(b.N)/plain.Seconds(), "MB/s-plain")
	b.ReportMetric(100*float64(b.N)/beside.Seconds(), "MB/s-beside")
	b.ReportMetric(100*float64(b.N)/summed.Seconds(), "MB/s-summed")
}

// A timedAnswer is an answer and when it came: rounds look for it one by one.
type timedAnswer struct {
	cutAnswer
	at time.Time
}

// residentMemory reads how much memory the system has given to this process (Linux).
func residentMemory(b *testing.B, field string) (bytes int64) {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), field+":")
	if _, err := fmt.Sscan(rest, &bytes); err != nil {
		b.Skip(err)
	}
	return bytes << 10
}

// writePlain writes 100 MB to a new file, waits until they are on the disk, and removes it. With sums, another goroutine computes their SHA-256.
func writePlain(dir string, sums bool) (took time.Duration, err error) {
	block := make([]byte, 1<<20)
	began := time.Now()
	f, err := os.CreateTemp(dir, "plain")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	parts := make(chan []byte, 3)
	var summing sync.WaitGroup
	summing.Go(func() {
		for part := range parts {
			sha256.Sum256(part)
		}
	})
	for left := int64(100e6); left > 0 && err == nil; left -= int64(len(block)) {
		part := block[:min(left, int64(len(block)))]
		if _, err = f.Write(part); sums {
			parts <- part
		}
	}
	close(parts)
	summing.Wait()
	if err == nil {
		err = f.Sync()
	}
	return time.Since(began), err
}
