package dataplane

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkTransfer pushes a parameter to two servers and pulls it back, over TCP on one host: in frames, as in a round (Data, Ack, Declare, Params), and
// through sockets without any protocol, which is what the carrier allows. The two take turns, so that a machine whose speed drifts changes both. The time
// of an op is that of both; the metrics have the medians.
func BenchmarkTransfer(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20, 16 << 20, 128 << 20} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			var memory [4][]byte // of both ends of two connections; the same for both ways
			for i := range memory {
				memory[i] = make([]byte, size/2)
			}
			frames, plain := newTransfer(b, memory[:], pushFrames, serveFrames), newTransfer(b, memory[:], pushPlain, servePlain)
			defer frames.end()
			defer plain.end()
			var inFrames, inPlain []time.Duration
			for b.Loop() {
				inFrames, inPlain = append(inFrames, frames.turn(b)), append(inPlain, plain.turn(b))
			}
			slices.Sort(inFrames)
			slices.Sort(inPlain)
			f, p := inFrames[len(inFrames)/2], inPlain[len(inPlain)/2]
			b.ReportMetric(float64(f.Microseconds()), "frames-us")
			b.ReportMetric(float64(p.Microseconds()), "sockets-us")
			b.ReportMetric(100*float64(p)/float64(f), "%-of-sockets")
		})
	}
}

// A shipment is one end of a connection with what travels over it in both directions.
type shipment struct {
	*Conn
	progress *Progress
	memory   []byte
}

// A transfer has the connections of a trainer to two servers.
type transfer struct {
	trainer []*shipment
	push    func(*shipment) error
	servers sync.WaitGroup
}

func newTransfer(b *testing.B, memory [][]byte, push, serve func(*shipment) error) *transfer {
	t := &transfer{push: push}
	for ; len(memory) > 0; memory = memory[2:] {
		dialed, accepted := connected(b)
		load := func(c *Conn, memory []byte) *shipment {
			tune(c.net, 0)
			return &shipment{c, NewProgress(tableOf(len(memory))), memory}
		}
		t.trainer = append(t.trainer, load(dialed, memory[0]))
		server := load(accepted, memory[1])
		t.servers.Go(func() {
			defer server.Close()
			for serve(server) == nil {
			}
		})
	}
	return t
}

func (t *transfer) end() {
	for _, s := range t.trainer {
		_ = s.Close()
	}
	t.servers.Wait()
}

// turn pushes to both servers and pulls back.
func (t *transfer) turn(b *testing.B) time.Duration {
	begin := time.Now()
	errs := make([]error, len(t.trainer))
	var group sync.WaitGroup
	for i, s := range t.trainer {
		group.Go(func() { errs[i] = t.push(s) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

func pushPlain(s *shipment) error {
	if _, err := s.net.Write(s.memory); err != nil {
		return err
	}
	_, err := io.ReadFull(s.net, s.memory)
	return err
}

func servePlain(s *shipment) error {
	if _, err := io.ReadFull(s.net, s.memory); err != nil {
		return err
	}
	_, err := s.net.Write(s.memory)
	return err
}

func pushFrames(s *shipment) error {
	if err := s.write(Data); err != nil {
		return err
	}
	if _, err := s.ReadHead(); err != nil { // Ack
		return err
	}
	if err := s.WriteMessage(Head{Kind: Declare}, nil); err != nil {
		return err
	}
	return s.read()
}

func serveFrames(s *shipment) error {
	if err := s.read(); err != nil {
		return err
	}
	if err := s.WriteMessage(Head{Kind: Ack}, nil); err != nil {
		return err
	}
	if _, err := s.ReadHead(); err != nil { // Declare
		return err
	}
	return s.write(Params)
}

func (s *shipment) write(k Kind) error {
	return s.WriteSlices(Head{Kind: k}, []int{0}, func(int) ([]byte, error) { return s.memory, nil })
}

// read takes frames until the whole parameter is here.
func (s *shipment) read() error {
	s.progress.Reset()
	for !s.progress.Complete() {
		h, err := s.ReadHead()
		if err != nil {
			return err
		}
		parts, err := s.ReadParts(h, s.progress)
		if err != nil {
			return err
		}
		for _, p := range parts {
			if err := s.ReadPart(p, s.memory[p.Offset:p.Offset+p.Length]); err != nil {
				return err
			}
		}
		if err := s.End(h); err != nil {
			return err
		}
	}
	return nil
}
