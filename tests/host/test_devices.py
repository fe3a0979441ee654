"""Emulated devices: how they are described, and how they hold a job to their speed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.host.conftest import Host
from workers.host.devices import Device, Pacer, emulated, pacer


def test_a_description_numbers_the_devices_from_zero():
    devices = emulated("nvidia-a10=1,nvidia-l4=2")
    assert [(device.index, device.accelerator_type) for device in devices] == [
        (0, "nvidia-a10"),
        (1, "nvidia-l4"),
        (2, "nvidia-l4"),
    ]
    assert devices[0].enrolment() == {"index": 0, "type": "nvidia-a10", "emulated": True}


def test_progress_comes_no_earlier_than_the_stated_hours_allow():
    pace = Pacer(hours=0.23, speedup=15.0, relative_speed=1.0)
    pace.begin(at=1000.0, progress=0.0)
    assert pace.delay(at=1000.0, progress=0.5) == pytest.approx(0.5 * 0.23 * 3600 / 15)
    assert pace.delay(at=2000.0, progress=1.0) == 0.0


def test_a_resumed_job_is_paced_from_where_it_goes_on():
    pace = Pacer(hours=1.0, speedup=3600.0, relative_speed=1.0)
    pace.begin(at=10.0, progress=0.5)
    assert pace.delay(at=10.0, progress=0.75) == pytest.approx(0.25)


def test_without_hours_a_type_of_half_the_speed_takes_twice_as_long():
    pace = Pacer(hours=None, speedup=15.0, relative_speed=0.5)
    pace.begin(at=0.0, progress=0.0)
    assert pace.delay(at=2.0, progress=0.1) == pytest.approx(2.0)
    assert pace.delay(at=7.0, progress=0.2) == pytest.approx(3.0)


def test_a_real_device_has_no_pacer():
    assert pacer(Device(0, "nvidia-a10", emulated=False), expected_hours="1", speedup=1.0) is None


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1)), max_size=20),
    st.one_of(st.none(), st.floats(0.01, 10)),
    st.floats(0.1, 4),
)
def test_a_delay_is_never_negative_and_the_clock_never_goes_back(steps, hours, speed):
    pace, at = Pacer(hours, 100.0, speed), 0.0
    pace.begin(at=at, progress=0.0)
    for compute, progress in steps:
        at += compute
        delay = pace.delay(at=at, progress=progress)
        assert delay >= 0.0
        at += delay


@pytest.mark.usefixtures("sandboxed")
def test_a_job_on_an_emulated_device_takes_the_time_that_its_type_would(host: Host):
    script = """
import time
from laissez.sdk import progress, resume
resume()
began = time.monotonic()
for step in range(1, 5):
    progress(step / 4, step=step)
print(time.monotonic() - began)
"""
    lease = host.run(script, expected_hours="1.0")  # 3600 times as fast: one second
    assert host.end(lease)["reason"] == "completed"
    assert 0.8 < float(host.plane.text(lease, "stdout")) < 3.0
