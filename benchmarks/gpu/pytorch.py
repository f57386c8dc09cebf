"""The line of PyTorch: the same model and image files, decoded by torchvision in worker processes."""

import os
import time
from pathlib import Path

import torch
import torchvision
from torchvision.transforms import v2

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Images(torch.utils.data.Dataset):
    """The images, uint8 of (3, height, width), and the numbers of their classes, which are their folders' names."""

    def __init__(self, part, image_size):
        self._part = part
        self._resize = v2.Resize(image_size, antialias=True)

    def __len__(self):
        return len(self._part.paths)

    def __getitem__(self, index):
        path = self._part.paths[index]
        image = torchvision.io.read_image(path, torchvision.io.ImageReadMode.RGB)
        return self._resize(image), self._part.class_names.index(Path(path).parent.name)


def examples_per_second(part, image_size, batch_size, steps):
    """Trains on a `Part` of image files for twice `steps` steps, and times the second half."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True  # as TensorFlow does
    model = vgg16(len(part.class_names))
    loader = torch.utils.data.DataLoader(
        Images(part, image_size), batch_size, shuffle=True, drop_last=True, num_workers=os.cpu_count(), pin_memory=True
    )
    batches = _endless(loader)
    model(next(batches)[0].to(DEVICE).float())  # gives the last layer its size
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.Adam(trained, 1e-4)
    for _ in range(2):
        _wait()
        begin = time.perf_counter()
        for _ in range(steps):
            _step(model, optimizer, *next(batches))
        _wait()
    return steps * batch_size / (time.perf_counter() - begin)


def vgg16(classes):
    """Returns VGG16 with random weights, trained from its last block on."""
    features = torchvision.models.vgg16(weights=None).features
    for layer in features[:24]:
        layer.requires_grad_(False)
    model = torch.nn.Sequential(features, torch.nn.Flatten(), torch.nn.LazyLinear(classes))
    return model.to(DEVICE, memory_format=torch.channels_last)


def _endless(loader):
    while True:
        yield from loader


def _step(model, optimizer, images, labels):
    images, labels = images.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True)
    inputs = images.float().div_(255).contiguous(memory_format=torch.channels_last)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _wait():
    """Waits until the GPU has done what it has been given."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
