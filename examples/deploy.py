# SPDX-License-Identifier: BSD-3-Clause

"""Run an exported policy in plain MuJoCo; scene.xml beside the policy has the robot on a plane."""

import argparse
import json
import pathlib

import mujoco
import numpy as np
import onnxruntime


def observe(model: mujoco.MjModel, data: mujoco.MjData, meta: dict, command: list, action: np.ndarray) -> np.ndarray:
    """Return the observation, in the order in which the metadata lists its terms."""
    joints = [model.joint(name) for name in meta["joint_names"]]
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
    to_base = rotation.reshape(3, 3).T
    # MuJoCo has the velocity of the body's origin in the world; the policy wants that of its centre of mass.
    center_of_mass = model.body(meta["base_body"]).ipos
    terms = {
        "base_lin_vel": to_base @ data.qvel[:3] + np.cross(data.qvel[3:6], center_of_mass),
        "base_ang_vel": data.qvel[3:6],
        "projected_gravity": to_base @ [0.0, 0.0, -1.0],
        "velocity_commands": command,
        "joint_pos": [data.qpos[joint.qposadr[0]] for joint in joints] - np.array(meta["default_joint_pos"]),
        "joint_vel": [data.qvel[joint.dofadr[0]] for joint in joints],
        "actions": action,
    }
    if "height_scan" in meta:  # the ground of this scene is a plane at height zero
        scan = meta["height_scan"]
        mujoco.mj_kinematics(model, data)  # mj_step leaves the poses of the step before
        height = data.body(scan["body"]).xpos[2] - scan["offset"]
        terms["height_scan"] = np.full(len(scan["points"]), np.clip(height, -1.0, 1.0))
    return np.concatenate([term["scale"] * np.asarray(terms[term["name"]]) for term in meta["observations"]])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", type=pathlib.Path, help="policy.onnx of rsl-rl-sac export")
    parser.add_argument("--command", type=float, nargs=3, default=[0.5, 0.0, 0.0], help="forward, left, turning speed")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to run")
    args = parser.parse_args()
    session = onnxruntime.InferenceSession(args.policy)
    meta = {name: json.loads(value) for name, value in session.get_modelmeta().custom_metadata_map.items()}
    model = mujoco.MjModel.from_xml_path(str(args.policy.with_name("scene.xml")))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    drives = [model.actuator(name).id for name in meta["joint_names"]]
    action = np.zeros(len(drives), dtype=np.float32)
    for _ in range(round(args.seconds * meta["control_rate"])):
        obs = observe(model, data, meta, args.command, action).astype(np.float32)
        action = np.asarray(session.run(["actions"], {"obs": obs[None]})[0])[0]
        data.ctrl[drives] = np.array(meta["default_joint_pos"]) + meta["action_scale"] * action
        mujoco.mj_step(model, data, meta["physics_steps_per_control_step"])
    (x, y, z), tilt = data.qpos[:3], np.degrees(np.arccos(-observe(model, data, meta, args.command, action)[8]))
    print(f"{meta['task']}: after {data.time:.1f} s at x {x:.2f} m, y {y:.2f} m, height {z:.2f} m, tilt {tilt:.0f} deg")
