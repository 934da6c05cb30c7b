package program

import (
	"crypto/sha256"
	"encoding/hex"
)

// A Hash identifies the content of a program.
type Hash [sha256.Size]byte

// Hash returns the SHA-256 of the bytes of Encode without the op_callstack attributes, so that moving a line of user code does not make another
// program. The startup program counts.
func (p *Program) Hash() (Hash, error) {
	e := encoder{dropCallstacks: true}
	data, err := e.encode(p)
	if err != nil {
		return Hash{}, err
	}
	return sha256.Sum256(data), nil
}

// String returns all 64 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short returns the first 12 hexadecimal digits, enough for people to tell programs apart.
func (h Hash) Short() string { return h.String()[:12] }
