package dataplane

import (
	"encoding/binary"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/crc32c"
	"github.com/edl-go/edl/remote/id"
)

// Limits of a frame, in bytes.
const (
	HeadBytes  = 64
	FrameBytes = 1 << 20  // parts of one frame together; the last part may be cut for it
	maxMessage = 16 << 20 // body of Declare and Fault
	partBytes  = 16       // entry of a part in the list
	endBit     = 1 << 31  // of the number of a slice in the list: nothing of the slice follows
)

// sharedBytes is what FrameBytes is where the bytes of parts lie in shared memory. There a frame is cut only so that the peer may begin, and each frame
// wakes the peer. Bytes that travel in frames are cut finer: the kernel copies a frame while it is in the cache, because the checksum has just read it.
const sharedBytes = 4 << 20

// A Kind says what a frame is.
type Kind uint8

const (
	Data    Kind = 1 + iota // trainer: slices of a contribution
	Declare                 // trainer: the contribution is at all servers
	Ack                     // server: all slices of the contribution are here, or the declaration is; see the package for where Params say it
	Params                  // server: slices of the parameters
	Fault                   // server: why the connection ends
	Welcome                 // server: the token is good
	Get                     // trainer: asks for Params
)

var kindNames = [...]string{"unknown", "data", "declare", "ack", "params", "fault", "welcome", "get"}

// String is the name of the kind, as errors have it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[0]
}

// Flags of a frame.
const (
	Last       uint8 = 1 << iota // Params: no frame of this version follows
	shared                       // Data and Params: the bytes of the parts lie in shared memory, not in the body
	AnyVersion                   // Get: the parameters as they are now
	Confirm                      // Get: an Ack in place of the parameters
)

// A Head begins every frame.
type Head struct {
	Kind       Kind
	Flags      uint8
	Generation id.Generation
	Round      id.Round // Data, Declare and Ack: that is contributed to; Get and Params: the version, in async mode the step that asks
	Rank       id.Rank
	Parts      uint32
	Body       uint64 // length, with the list of parts

	bodySum uint32
}

const magic = "EDLd"

// put writes the head into b, which has HeadBytes.
func (h *Head) put(b []byte) {
	le := binary.LittleEndian
	copy(b, magic)
	b[4], b[5], b[6], b[7] = byte(h.Kind), h.Flags, 0, 0
	le.PutUint64(b[8:], uint64(h.Generation))
	le.PutUint64(b[16:], uint64(h.Round))
	le.PutUint32(b[24:], 0)
	le.PutUint32(b[28:], uint32(h.Rank))
	clear(b[32:44])
	le.PutUint32(b[44:], h.Parts)
	le.PutUint64(b[48:], h.Body)
	le.PutUint32(b[56:], h.bodySum)
	le.PutUint32(b[60:], crc32c.Checksum(b[:60]))
}

// parseHead reads a head from b, which has HeadBytes. It checks everything that needs no table.
func parseHead(b []byte) (Head, error) {
	le := binary.LittleEndian
	if string(b[:4]) != magic || le.Uint32(b[60:]) != crc32c.Checksum(b[:60]) {
		return Head{}, damaged("head")
	}
	h := Head{Kind: Kind(b[4]), Flags: b[5], Generation: id.Generation(le.Uint64(b[8:])), Round: id.Round(le.Uint64(b[16:])),
		Rank: id.Rank(le.Uint32(b[28:])), Parts: le.Uint32(b[44:]), Body: le.Uint64(b[48:]), bodySum: le.Uint32(b[56:])}
	sliced := h.Kind == Data || h.Kind == Params
	zero := b[6] == 0 && b[7] == 0 && le.Uint32(b[24:]) == 0 && [12]byte(b[32:]) == [12]byte{}
	switch {
	case h.Kind == 0 || int(h.Kind) >= len(kindNames), !zero, h.Flags&^(Last|shared|AnyVersion|Confirm) != 0:
		return Head{}, fault.E(fault.Corrupt, fault.Gotf("a frame of kind %d with flags %#x", b[4], b[5]), fault.Want("a kind and flags of this version"))
	case sliced && (h.Body > FrameBytes+uint64(h.Parts)*partBytes || h.Body < uint64(h.Parts)*partBytes),
		!sliced && (h.Parts > 0 || h.Body > maxMessage):
		return Head{}, fault.E(fault.TooLarge, fault.Gotf("a frame %s with %d parts and a body of %d bytes", h.Kind, h.Parts, h.Body),
			fault.Wantf("a body of at most %d", FrameBytes))
	}
	return h, nil
}

// damaged is the error of bytes that have changed on their way. Its kind says that another try may help.
func damaged(what string) error {
	return fault.E(fault.Unavailable, fault.Gotf("a frame whose %s has changed on its way", what), fault.Want("the bytes that were sent"))
}
