package pserver_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// BenchmarkLookups asks one server for random rows of 16 numbers of a table of 2^20 rows, 2^14 rows at a time, over loopback, on as many connections as there are
// cores. In the table that grows 3/4 of the rows are in use. Trainers run in the same process. It reports lookups a second, and, of the bandwidth of memory, the share
// that their rows take which the server reads and writes to answers. The bandwidth is that of copies of 128 MB on all cores, the best of some before and some after.
func BenchmarkLookups(b *testing.B) {
	const rows, width, batch = 1 << 20, 16, 1 << 14
	for _, grows := range []bool{false, true} {
		name := "fixed"
		if grows {
			name = "grows"
		}
		b.Run(name, func(b *testing.B) {
			p := pstest.SGD(0, true, 1, 4)
			variable := func(name string, dtype tensor.DType, dims ...int64) *tensor.Tensor {
				v, err := tensor.New(dtype, dims...)
				if err != nil {
					b.Fatal(err)
				}
				p.Variables[name] = v
				p.Service.Slices = append(p.Service.Slices, comm.Slice{Name: name, Origin: name, Rows: rows, TotalRows: rows, Table: "w"})
				return v
			}
			w := variable("w", tensor.Float32, rows, width)
			kernel.Fill(w.Float32s(), 1)
			if grows {
				keys, index := variable("w.keys", tensor.Int64, rows), variable("w.index", tensor.Int32, rows)
				p.Service.Tables = []comm.GrownTable{{Slice: p.Service.Slices[len(p.Service.Slices)-3], Keys: "w.keys", Index: "w.index"}}
				writer := kernel.KeyWriter{KeyTable: kernel.KeyTable{Keys: keys.Int64s(), Index: index.Int32s(), Region: rows / kernel.KeyRegions}, Stamp: 1}
				for key := range int64(rows / 4 * 3) {
					writer.Insert(kernel.MixKey(key))
				}
			}
			s := pstest.Start(b, pstest.Config(1), p)
			before := copyBandwidth(b)
			cores := runtime.GOMAXPROCS(0)
			var group sync.WaitGroup
			b.ResetTimer()
			for client := range cores {
				conn, err := wire.Dial(s.Address, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer conn.Close()
				group.Go(func() {
					server, draw := rpc.NewParameterServerClient(conn), rand.New(rand.NewPCG(1, uint64(client)))
					into, err := tensor.New(tensor.Int32, int64(wire.RowsWords(tensor.Float32, batch*width)))
					m := &rpc.RowsRequest{Id: (pstest.Trainer{}).ID(0), Tables: []string{"w"}, Counts: []uint32{batch}}
					for i := client; err == nil && i < b.N; i += cores {
						m.Rows, m.Keys = m.Rows[:0], m.Keys[:0]
						for range batch {
							if grows {
								m.Keys = append(m.Keys, kernel.MixKey(draw.Int64N(rows/4*3)))
							} else {
								m.Rows = append(m.Rows, draw.Uint32N(rows))
							}
						}
						var stream rpc.ParameterServer_GetRowsClient
						if stream, err = server.GetRows(b.Context(), m); err == nil {
							_, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return into, nil })
						}
					}
					if err != nil {
						b.Error(err)
					} else if rows, _, err := wire.TakeRows(into.Int32s(), batch*width); b.N >= cores && (err != nil || rows.Float32s()[batch*width-1] != 1) {
						b.Error("a row has not come: ", err)
					}
				})
			}
			group.Wait()
			b.StopTimer()
			lookups := float64(b.N) * batch / b.Elapsed().Seconds()
			bandwidth := max(before, copyBandwidth(b))
			b.ReportMetric(lookups/1e6, "Mlookups/s")
			b.ReportMetric(bandwidth/1e9, "copy-GB/s")
			b.ReportMetric(100*lookups*2*4*width/bandwidth, "%of-copy")
		})
	}
}

// copyBandwidth returns how many bytes a second are read and written when each core copies memory that is in no cache.
func copyBandwidth(b *testing.B) (best float64) {
	const bytes = 128 << 20
	cores := runtime.GOMAXPROCS(0)
	from, to := make([]byte, bytes), make([]byte, bytes)
	copy(to, from) // gives them memory
	for i := range from {
		from[i] = byte(i)
	}
	for range 5 {
		var group sync.WaitGroup
		began := time.Now()
		for core := range cores {
			first, end := bytes/cores*core, bytes/cores*(core+1)
			group.Go(func() { copy(to[first:end], from[first:end]) })
		}
		group.Wait()
		best = max(best, 2*float64(bytes/cores*cores)/time.Since(began).Seconds())
	}
	return best
}
