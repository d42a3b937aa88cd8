package ranks

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The processes of a launch that has no MPI find each other by TCP: rank 0 listens at the launch's address,
// and the others ask it for the bytes with which a library connects them. Nothing else travels so.

// meetingTime is how long ranks wait for each other.
var meetingTime = 5 * time.Minute

// greeting is how rank 0 recognises a rank of its launch.
type greeting struct {
	Magic      [8]byte
	Run        [32]byte // the first bytes of the launcher's name of the run
	Rank, Size uint32
}

var meetingMagic = [8]byte([]byte("dptrain\n"))

// maxShared is the largest number of bytes that Exchange sends.
const maxShared = 1 << 16

// Exchange returns rank 0's bytes on every rank of a launch.
func (l Launch) Exchange(shared []byte) ([]byte, error) {
	if l.Size == 1 {
		return shared, nil
	}
	mine := greeting{Magic: meetingMagic, Rank: uint32(l.Rank), Size: uint32(l.Size)}
	copy(mine.Run[:], l.Run)
	deadline := time.Now().Add(meetingTime)
	if l.Rank == 0 {
		return shared, l.serve(shared, mine, deadline)
	}
	return l.ask(mine, deadline)
}

// serve sends the bytes to every other rank. It ignores other connections.
func (l Launch) serve(shared []byte, mine greeting, deadline time.Time) error {
	if len(shared) > maxShared {
		return fmt.Errorf("rank 0 cannot send %d bytes to the others", len(shared))
	}
	_, port, err := net.SplitHostPort(l.Address)
	if err != nil {
		return fmt.Errorf("the address %q of rank 0: %w", l.Address, err)
	}
	at, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return fmt.Errorf("rank 0 cannot wait for the other ranks: %w", err)
	}
	defer at.Close()
	at.(*net.TCPListener).SetDeadline(deadline)
	served := map[uint32]bool{}
	for len(served) < l.Size-1 {
		c, err := at.Accept()
		if err != nil {
			return fmt.Errorf("%d of %d other ranks have connected to rank 0 at %s: %w", len(served), l.Size-1, l.Address, err)
		}
		if rank, err := answer(c, shared, mine, deadline); err == nil {
			served[rank] = true
		}
		c.Close()
	}
	return nil
}

// answer serves a connection and returns its rank.
func answer(c net.Conn, shared []byte, mine greeting, deadline time.Time) (uint32, error) {
	soon := time.Now().Add(10 * time.Second) // a silent connection does not hold up the ranks
	if soon.After(deadline) {
		soon = deadline
	}
	c.SetDeadline(soon)
	var theirs greeting
	if err := binary.Read(c, binary.LittleEndian, &theirs); err != nil {
		return 0, err
	}
	rank := theirs.Rank
	theirs.Rank = mine.Rank
	if theirs != mine || rank == 0 || rank >= mine.Size {
		return 0, errors.New("it is no rank of this launch")
	}
	var message bytes.Buffer
	binary.Write(&message, binary.LittleEndian, uint32(len(shared)))
	message.Write(shared)
	if _, err := c.Write(message.Bytes()); err != nil {
		return 0, err
	}
	var received [1]byte
	_, err := io.ReadFull(c, received[:])
	return rank, err
}

// ask asks rank 0 for its bytes, again and again, because it may start later.
func (l Launch) ask(mine greeting, deadline time.Time) ([]byte, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		shared, err := l.askOnce(mine, deadline)
		if err == nil {
			return shared, nil
		}
		if time.Now().Add(pause).After(deadline) {
			return nil, fmt.Errorf("rank %d gets no answer of rank 0 at %s: %w", l.Rank, l.Address, err)
		}
		time.Sleep(pause)
	}
}

func (l Launch) askOnce(mine greeting, deadline time.Time) ([]byte, error) {
	c, err := net.DialTimeout("tcp", l.Address, min(10*time.Second, time.Until(deadline)))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if err := binary.Write(c, binary.LittleEndian, mine); err != nil {
		return nil, err
	}
	var length uint32
	if err := binary.Read(c, binary.LittleEndian, &length); err != nil {
		return nil, fmt.Errorf("it is not rank 0 of this launch: %w", err)
	}
	if length > maxShared {
		return nil, fmt.Errorf("it is not rank 0 of this launch: it sends %d bytes", length)
	}
	shared := make([]byte, length)
	_, err = io.ReadFull(c, shared)
	_, ackErr := c.Write([]byte{1})
	return shared, cmp.Or(err, ackErr)
}
