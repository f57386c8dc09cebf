"""PyTorch 2: torchvision's VGG16, the usual DataLoader and a hand-written loop."""

import glob
import os

import torch
import torchvision
from torchvision.transforms import v2

from benchmarks import scans
from benchmarks.sides.serve import now, serve, since

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
IMAGENET_MEAN = torch.tensor([123.68, 116.779, 103.939], device=DEVICE).view(1, 3, 1, 1)
CLASSES, BATCH = 4, 32


def vgg16():
    """Returns VGG16 with all layers before the last convolutional block frozen, as on the other sides."""
    base = torchvision.models.vgg16(weights=None).features
    for layer in base[:24]:
        layer.requires_grad_(False)
    model = torch.nn.Sequential(base, torch.nn.Flatten(), torch.nn.Linear(512 * 7 * 7, CLASSES))
    return model.to(DEVICE, memory_format=torch.channels_last)


def flagship(files, epochs):
    torch.set_num_threads(os.cpu_count())
    transform = v2.Compose([v2.PILToTensor(), v2.Resize((224, 224))])
    images = torchvision.datasets.ImageFolder(files, transform)

    def train(dataset, epochs):
        options = {"num_workers": os.cpu_count(), "persistent_workers": True, "pin_memory": DEVICE == "cuda"}
        loader = torch.utils.data.DataLoader(dataset, BATCH, shuffle=True, **options)
        model = vgg16().train()
        optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=1e-4)
        for _ in range(epochs):
            losses, correct = torch.zeros((), device=DEVICE), torch.zeros((), device=DEVICE)
            for pixels, labels in loader:
                pixels, labels = pixels.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True)
                inputs = (pixels.float() - IMAGENET_MEAN).contiguous(memory_format=torch.channels_last)
                logits = model(inputs)
                loss = torch.nn.functional.cross_entropy(logits, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses += loss.detach()
                correct += (logits.argmax(1) == labels).sum()
            assert losses.isfinite()

    train(torch.utils.data.Subset(images, range(BATCH)), 1)
    return lambda: train(images, epochs)


class Scans(torch.utils.data.Dataset):
    """The same images as ours, read by the same function."""

    def __init__(self, folder):
        self.paths = sorted(glob.glob(os.path.join(folder, "*", "*.jpeg")))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return scans.load(self.paths[index])


def worker_input(files, epochs):
    dataset = Scans(files)

    def run():
        begin = now()
        loader = torch.utils.data.DataLoader(
            dataset, BATCH, shuffle=True, num_workers=os.cpu_count(), persistent_workers=True
        )
        number = sum(len(labels) for _ in range(epochs) for _, labels in loader)
        assert number == epochs * len(dataset)
        answer = since(begin)
        del loader  # stops the workers, whose processor time counts only then
        return answer | {"cpu": since(begin)["cpu"]}

    return run


def device():
    return torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"


if __name__ == "__main__":
    serve({"flagship": flagship, "worker_input": worker_input}, ["torch", "torchvision"], device)
