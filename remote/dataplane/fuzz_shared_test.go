package dataplane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
)

// scribbler is the connection of a peer that shares memory. Whenever it is read from, the peer writes into all of the memory that it may touch.
type scribbler struct {
	stored
	memory []byte
	times  byte
}

// ink is what the peer writes into a place now. It differs from place to place, and from time to time.
func (s *scribbler) ink(place int) byte { return s.times + byte(place) }

func (s *scribbler) Read(b []byte) (int, error) {
	s.times += 100
	for place := range s.memory {
		s.memory[place] = s.ink(place)
	}
	return s.stored.Read(b)
}

// margin is how many marked bytes lie before and after what a frame may touch.
const margin = 128

var fence = bytes.Repeat([]byte{0xA5}, margin)

// fenced is n marked bytes between two fences, and whole has the fences, too.
func fenced(n int) (b, whole []byte) {
	whole = bytes.Repeat(fence[:1], margin+n+margin)
	return whole[margin : margin+n : margin+n], whole
}

// unfenced reports whether somebody has crossed a fence.
func unfenced(whole []byte) bool {
	return !bytes.Equal(whole[:margin], fence) || !bytes.Equal(whole[len(whole)-margin:], fence)
}

// readShared reads frames from a peer with which it shares memory. It checks that bytes come from where the peer may write, and go where they belong.
func readShared(t *testing.T, b []byte, l Layout, wanted bool) error {
	theirs, ours, size := l.places()
	memory, whole := fenced(size)
	peer := &scribbler{stored: stored{in: bytes.NewReader(b)}, memory: memory[:ours[0]]}
	c, p := newConn(peer), NewProgress(l.Send)
	c.share(&region{bytes: memory}, ours, theirs)
	values, fences := make([][]byte, len(l.Send)), make([][]byte, len(l.Send))
	for i, slice := range l.Send {
		values[i], fences[i] = fenced(slice.Bytes)
	}
	defer func() {
		if unfenced(whole) || bytes.Count(memory[ours[0]:], fence[:1]) != size-ours[0] {
			t.Error("reading has changed memory")
		}
		if slices.ContainsFunc(fences, unfenced) {
			t.Error("bytes go beside a slice")
		}
	}()
	for {
		h, err := c.ReadHead()
		if err != nil {
			return err
		}
		if h.Kind != Data && h.Kind != Params {
			if err := errors.Join(c.Discard(int(h.Body)), c.End(h)); err != nil {
				return err
			}
			continue
		}
		if p.Complete() {
			p.Reset()
		}
		parts, err := c.ReadParts(h, p)
		if err != nil {
			return err
		}
		if h.Flags&shared == 0 {
			t.Error("a frame is taken whose bytes do not lie in memory")
		}
		for _, part := range parts {
			var to []byte
			if wanted {
				to = values[part.Slice][part.Offset : part.Offset+part.Length]
			}
			if err := c.ReadPart(part, to); err != nil {
				return err
			}
			for i, x := range to {
				if x != peer.ink(theirs[part.Slice]+part.Offset+i) {
					t.Fatalf("byte %d of %+v is not what the peer has written there", i, part)
				}
			}
		}
		if err := c.End(h); err != nil {
			return err
		}
	}
}

// FuzzShared reads any bytes as an end does that shares memory with a peer, which writes into it meanwhile.
func FuzzShared(f *testing.F) {
	l := Layout{Send: tableOf(9, 130, 0), Receive: tableOf(64)}
	theirs, ours, size := l.places()
	b := written(f, func(c *Conn) error {
		c.share(&region{bytes: make([]byte, size)}, theirs, ours)
		return send(c, valuesOf(l.Send), []int{0}, []int{2, 1})
	})
	f.Add(b, true)
	f.Add(append(bytes.Clone(b), b...), false)
	f.Add(b[:len(b)-1], true)
	add := func(flags uint8, parts ...Part) {
		f.Add(frame(Head{Kind: Data, Flags: flags, Parts: uint32(len(parts))}, list(parts...)), true)
	}
	add(0, Part{Slice: 2})                                                            // no bytes, and not in memory
	add(shared, Part{Slice: 1, Offset: 1, Length: 129})                               // not from its beginning
	add(shared, Part{Slice: 1, Length: 131})                                          // of the next slice
	add(shared, Part{Slice: 3, Length: 64})                                           // what this end writes
	add(shared, Part{Slice: 1 << 31, Length: 1})                                      // no slice
	add(shared|Last, Part{Length: 9}, Part{Length: 9})                                // twice
	add(shared, Part{Slice: 1, Length: 100}, Part{Slice: 1, Offset: 100, Length: 30}) // in two parts
	for _, flags := range []uint8{0, shared} {                                        // with bytes in the body
		f.Add(frame(Head{Kind: Data, Parts: 1, Flags: flags}, append(list(Part{Length: 9}), make([]byte, 9)...)), true)
	}
	far := list(Part{Slice: 1, Length: 1})
	binary.LittleEndian.PutUint64(far[8:], 1<<63)
	f.Add(frame(Head{Kind: Params, Parts: 1, Flags: shared}, far), true)
	f.Fuzz(func(t *testing.T, b []byte, wanted bool) {
		for _, b := range [][]byte{b, repair(b)} {
			if err := readShared(t, b, l, wanted); fault.KindOf(err) == fault.OK {
				t.Errorf("ended with %v", err)
			}
		}
	})
}
