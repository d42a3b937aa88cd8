package main

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/internal/ranks"
)

// membership is a rank's part in a run.
type membership struct {
	ranks  ranks.Communicator // nil in a process alone
	device string             // that this rank computes on
}

// join makes a specification that of a rank.
func (m membership) join(spec *settings.Spec, flags *settings.Flags) {
	if m.ranks != nil {
		spec.Config.Ranks, spec.Config.RankTimeout, spec.Config.Device.Name = m.ranks, flags.RankTimeout, m.device
	}
}

// place gives each rank a device: with --device cuda, and by default where every rank has a GPU, the GPUs of a
// host one after the other. It connects the ranks by NCCL, where that is installed and they have a GPU each.
func (m *membership) place(term *terminal.Terminal, flags *settings.Flags) error {
	if m.device != "" { // NCCL connects the ranks already
		return m.checkDevice(flags.Device.Name)
	}
	hosts, err := ranks.Hosts(m.ranks)
	if err != nil {
		return err
	}
	m.device = flags.Device.Name
	gpus, err := cuda.Devices()
	if err == nil && (len(gpus) == 0 || m.isAuto() && gpus[0].Emulated) {
		err = fmt.Errorf("--device %s: this host has no GPU", m.device)
	}
	if m.isAuto() || m.device == "cuda" || m.device == allGPUs {
		err = ranks.Agree(m.ranks, err)
		switch {
		case err == nil:
			local := 0
			for _, host := range hosts[:m.ranks.Rank()] {
				if host == hosts[m.ranks.Rank()] {
					local++
				}
			}
			m.device = gpus[local%len(gpus)].String()
		case m.isAuto():
			m.device = "cpu"
			return nil
		default:
			return err
		}
	}
	return m.connectDevices(term, hosts, gpus)
}

func (m *membership) isAuto() bool { return m.device == "" || m.device == "auto" }

// checkDevice refuses another device than the one that NCCL connects.
func (m *membership) checkDevice(wanted string) (err error) {
	if !slices.Contains([]string{"", "auto", "cuda", allGPUs, m.device}, wanted) {
		err = fmt.Errorf("device %s in the settings: NCCL connects %s; give it as --device", wanted, m.device)
	}
	return ranks.Agree(m.ranks, err)
}

// connectDevices lets NCCL add the sums of ranks that have a GPU each. Otherwise the sums travel through the
// hosts.
func (m *membership) connectDevices(term *terminal.Terminal, hosts []string, gpus []cuda.Device) error {
	own := slices.IndexFunc(gpus, func(g cuda.Device) bool { return g.String() == m.device })
	numbers := make([]int64, len(hosts)) // of each rank's GPU, from 1; 0: it has none
	numbers[m.ranks.Rank()] = int64(own + 1)
	if err := m.ranks.Sum(numbers); err != nil {
		return err
	}
	if slices.Contains(numbers, 0) {
		return nil
	}
	if !gpus[own].Emulated { // every process has its own emulated device
		type place struct {
			host   string
			number int64
		}
		taken := map[place]bool{}
		for rank, number := range numbers {
			taken[place{hosts[rank], number}] = true
		}
		if len(taken) < len(hosts) {
			return nil
		}
	}
	connected, err := cuda.ConnectRanks(cuda.Options{Ordinal: gpus[own].Ordinal}, m.ranks)
	if err != nil {
		term.Note("the sums of the ranks travel through the memory of the hosts: %v", err)
		return nil
	}
	m.ranks = connected
	return nil
}
